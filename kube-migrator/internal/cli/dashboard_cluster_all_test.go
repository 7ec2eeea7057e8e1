// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// openDashboard is a dashboard that runs as a user starts it.
type openDashboard struct {
	url    string
	stderr *lockedBuilder
	// end ends it, and returns its exit code.
	end func() int
}

// dashboard starts a dashboard.
func (a *asked) dashboard(t *testing.T, kubeconfig string) *openDashboard {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	d, code := &openDashboard{stderr: &lockedBuilder{}}, make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"kube-migrator", "dashboard", "--kubeconfig", kubeconfig},
			Streams{In: strings.NewReader(""), Out: write, Err: d.stderr})
		_ = write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, d.stderr)
	}
	d.url = strings.TrimSpace(line)
	d.end = func() int { cancel(); return <-code }
	t.Cleanup(cancel)
	return d
}

// get sends a request, and returns the status and the answer.
func get(t *testing.T, url string, edit func(*http.Request)) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(r)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// until loads the page until it contains some words.
func (d *openDashboard) until(t *testing.T, words ...string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		_, page := get(t, d.url, nil)
		missing := ""
		for _, word := range words {
			if !strings.Contains(page, word) {
				missing = word
			}
		}
		if missing == "" {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatalf("the page lacks %q:\n%s", missing, page)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// sent is what a browser is told.
type sent struct{ Fixed, Rows map[string]string }

// follow opens the events of the page, and returns what waits for the next one.
func (d *openDashboard) follow(t *testing.T) (next func() sent) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 8<<20)
	return func() (parts sent) {
		t.Helper()
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := json.Unmarshal([]byte(data), &parts); err != nil {
					t.Fatal(err)
				}
				return parts
			}
		}
		t.Fatalf("the events ended: %v", lines.Err())
		return parts
	}
}

func TestTheDashboardOnARealCluster(t *testing.T) {
	t.Parallel()
	a := &asked{Cluster: testbed.New(t, testbed.Options{Users: []testbed.User{{Name: "guest"}}})}
	var err error
	if a.kubeconfig, err = a.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	d := a.dashboard(t, a.kubeconfig)
	d.until(t, "kube-migrator is not installed in this cluster", "<code>kube-migrator install</code>")
	for _, err := range []error{
		a.InstallCRDs(t.Context(), config.CRDs), a.InstallWidgets(t.Context(), testbed.Widgets{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const message = `<script>alert(1)</script>\u001b[2J`
	a.send(t, http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration",
		"metadata":{"name":"`+widgets+`"},"spec":{"generation":1,"resource":{"group":"demo.example.com","resource":"widgets"}}}`)
	running := func(done int) string {
		return fmt.Sprintf(`{"state":"Running","summary":"%s","storageVersion":"v1","run":{"generation":1},
			"progress":{"total":1000,"totalIsExact":true,"done":%d,"rewritten":%d,"current":0,"gone":0,"failed":0,"retried":0,"objectsPerSecond":50},
			"conditions":[{"type":"Reconciling","status":"True","reason":"Rewriting","message":"%s"}]}`, message, done, done, message)
	}
	a.status(t, widgets, running(250))

	t.Run("the page shows what progress shows, and text of others as text", func(t *testing.T) {
		page := d.until(t, "250 of 1,000", "50/s", ">25%<")
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "\x1b") ||
			!strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Errorf("text of others in the page:\n%s", page)
		}
		_, out, _ := a.run(t.Context(), "progress")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if sentence := lines[len(lines)-1]; !strings.Contains(page, sentence) {
			t.Errorf("the page lacks %q", sentence)
		}
		code, report, _ := a.run(t.Context(), "progress", "-o", "html")
		if code != exit.Undetermined || !strings.Contains(report, "250 of 1,000") ||
			!strings.HasPrefix(report, "<!DOCTYPE html>") || strings.Contains(report, "data-events") {
			t.Errorf("exit code %d:\n%s", code, report)
		}
		code, report, _ = a.run(t.Context(), "check", "-o", "html", widgets)
		if code != exit.Undetermined || !strings.Contains(report, widgets) || !strings.Contains(report, "Undetermined") {
			t.Errorf("exit code %d:\n%s", code, report)
		}
	})
	t.Run("browsers of others get nothing", func(t *testing.T) {
		parsed, err := url.Parse(d.url)
		if err != nil {
			t.Fatal(err)
		}
		for name, test := range map[string]struct {
			url  string
			edit func(*http.Request)
			want int
		}{
			"a name that someone rebound": {d.url, func(r *http.Request) { r.Host = "evil.example.com:" + parsed.Port() }, 403},
			"another site":                {d.url + "events", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example.com") }, 403},
			"no token":                    {"http://" + parsed.Host + "/", nil, 404},
			"another token":               {"http://" + parsed.Host + "/" + strings.Repeat("A", 26) + "/events", nil, 404},
			"a change":                    {d.url, func(r *http.Request) { r.Method = http.MethodPost }, 405},
		} {
			if status, answer := get(t, test.url, test.edit); status != test.want || strings.Contains(answer, widgets) {
				t.Errorf("%s: status %d, want %d: %s", name, status, test.want, answer)
			}
		}
	})
	t.Run("a change is sent to browsers", func(t *testing.T) {
		next := d.follow(t)
		next()
		a.status(t, widgets, running(500))
		for {
			if parts := next(); parts.Rows[widgets] != "" {
				if !strings.Contains(parts.Rows[widgets], "500 of 1,000") || len(parts.Rows) != 1 {
					t.Errorf("rows: %v", parts.Rows)
				}
				return
			}
		}
	})
	t.Run("while the API server is gone the page stays and says so, and then goes on", func(t *testing.T) {
		next := d.follow(t)
		next()
		a.Servers[0].Kill()
		for !strings.Contains(next().Fixed["trouble"], "Not up to date") {
		}
		d.until(t, "Not up to date", "500 of 1,000")
		if err := a.Servers[0].Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for {
			if trouble, changed := next().Fixed["trouble"]; changed && trouble == "" {
				break
			}
		}
		a.status(t, widgets, running(750))
		for !strings.Contains(next().Rows[widgets], "750 of 1,000") {
		}
	})
	t.Run("what is forbidden is said on the page", func(t *testing.T) {
		guest, err := a.KubeconfigFor(a.Servers[0].URL(), "guest")
		if err != nil {
			t.Fatal(err)
		}
		forbidden := a.dashboard(t, guest)
		forbidden.until(t, "storageversionmigrations.migration.k8s.io is forbidden", "kube-migrator-viewer",
			"Try: <code>kubectl auth can-i --list</code>")
		if code := forbidden.end(); code != exit.Done {
			t.Errorf("exit code %d", code)
		}
	})
	if code := d.end(); code != exit.Done {
		t.Errorf("exit code %d: %s", code, d.stderr)
	}
	if token := strings.Split(d.url, "/")[3]; strings.Contains(d.stderr.String(), token) {
		t.Errorf("the token is among the notes: %s", d.stderr)
	}
	if _, err := http.Get(d.url); err == nil {
		t.Error("it still answers")
	}
}
