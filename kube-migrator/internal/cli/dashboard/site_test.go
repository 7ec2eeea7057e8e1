// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
)

// blank is a page with one group.
func blank(sentence string, rows ...string) page.View {
	v := page.View{Title: "Page", Sentence: sentence, Columns: []page.Column{{Title: "State"}},
		Groups: []page.Group{{ID: "all", Title: "All"}}}
	for _, name := range rows {
		v.Groups[0].Rows = append(v.Groups[0].Rows, page.Row{Key: name, Name: name, Cells: []page.Cell{{Text: "fine"}}})
	}
	return v
}

func TestOnlyTheBrowserOfTheUserIsAnswered(t *testing.T) {
	site := &site{token: "TOKEN", hosts: hostsOf("127.0.0.1:8080"),
		board: newBoard(t.Context(), Options{Blank: blank("hello"), Every: time.Minute,
			Look: func(context.Context) (page.View, page.Trouble) { return blank("hello"), page.Trouble{} }})}
	with := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, test := range map[string]struct {
		method, path string
		edit         func(*http.Request)
		want         int
	}{
		"the page":                        {"GET", "/TOKEN/", nil, 200},
		"the page as localhost":           {"GET", "/TOKEN/", host("localhost:8080"), 200},
		"the head of the page":            {"HEAD", "/TOKEN/", nil, 200},
		"the head of the events":          {"HEAD", "/TOKEN/events", nil, 200},
		"the page from the page":          {"GET", "/TOKEN/", with("Origin", "http://127.0.0.1:8080"), 200},
		"a reload":                        {"GET", "/TOKEN/", with("Sec-Fetch-Site", "same-origin"), 200},
		"a URL that was typed":            {"GET", "/TOKEN/", with("Sec-Fetch-Site", "none"), 200},
		"no token":                        {"GET", "/", nil, 404},
		"no token for events":             {"GET", "/events", nil, 404},
		"an empty token":                  {"GET", "//events", nil, 404},
		"another token":                   {"GET", "/TOKEM/", nil, 404},
		"a part of the token":             {"GET", "/TOKE/", nil, 404},
		"another path":                    {"GET", "/TOKEN/other", nil, 404},
		"a path above":                    {"GET", "/TOKEN/../events", nil, 404},
		"a name that someone rebound":     {"GET", "/TOKEN/", host("evil.example.com:8080"), 403},
		"a name that ends like ours":      {"GET", "/TOKEN/", host("evil.localhost:8080"), 403},
		"another port":                    {"GET", "/TOKEN/", host("127.0.0.1:8081"), 403},
		"no port":                         {"GET", "/TOKEN/", host("127.0.0.1"), 403},
		"no name":                         {"GET", "/TOKEN/", host(""), 403},
		"another site":                    {"GET", "/TOKEN/events", with("Origin", "http://evil.example.com"), 403},
		"a file":                          {"GET", "/TOKEN/events", with("Origin", "null"), 403},
		"another scheme":                  {"GET", "/TOKEN/", with("Origin", "https://127.0.0.1:8080"), 403},
		"a link on another site":          {"GET", "/TOKEN/", with("Sec-Fetch-Site", "cross-site"), 403},
		"another port of the same site":   {"GET", "/TOKEN/", with("Sec-Fetch-Site", "same-site"), 403},
		"a POST":                          {"POST", "/TOKEN/", nil, 405},
		"a DELETE":                        {"DELETE", "/TOKEN/", nil, 405},
		"an OPTIONS of another site":      {"OPTIONS", "/TOKEN/", with("Origin", "http://evil.example.com"), 403},
		"a POST of another site":          {"POST", "/TOKEN/", with("Origin", "http://evil.example.com"), 403},
		"a TRACE that would show headers": {"TRACE", "/TOKEN/", nil, 405},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if strings.HasSuffix(test.path, "events") {
				cancel() // events have no other end
			}
			r := httptest.NewRequestWithContext(ctx, test.method, "http://127.0.0.1:8080"+test.path, nil)
			if test.edit != nil {
				test.edit(r)
			}
			w := &recorder{ResponseRecorder: httptest.NewRecorder()}
			site.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("status %d, want %d: %s", w.Code, test.want, w.Body)
			}
			if strings.Contains(w.Body.String(), "TOKEN") {
				t.Errorf("the token is in the answer: %s", w.Body)
			}
			if shown := strings.Contains(w.Body.String(), "hello"); shown != (w.Code == 200 && test.method == "GET") {
				t.Errorf("the page is in the answer: %t", shown)
			}
			for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
				"Cross-Origin-Resource-Policy": "same-origin"} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			policy := w.Header().Get("Content-Security-Policy")
			if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") ||
				strings.Contains(policy, "unsafe") || len(w.Header().Values("Access-Control-Allow-Origin")) > 0 {
				t.Errorf("headers: %v", w.Header())
			}
		})
	}
}

func TestBrowsersLeaveOutThePortOfTheScheme(t *testing.T) {
	hosts := hostsOf("127.0.0.1:80")
	for _, name := range []string{"127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"} {
		if !hosts[name] {
			t.Errorf("%s is refused", name)
		}
	}
	if len(hosts) != 4 {
		t.Errorf("these names are answered: %v", hosts)
	}
}

// recorder accepts deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

func TestABrowserIsToldWhatChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := make(chan page.View)
	d, err := Listen(ctx, 0, Options{Blank: blank("nothing"), Every: time.Millisecond,
		Look: func(ctx context.Context) (page.View, page.Trouble) {
			select {
			case v := <-looks:
				return v, page.Trouble{}
			case <-ctx.Done():
				return page.View{}, page.Trouble{Error: "late"}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- d.Serve(ctx) }()
	if !strings.HasPrefix(d.URL(), "http://127.0.0.1:") || len(d.token) < 26 {
		t.Errorf("the URL is %s", d.URL())
	}
	response, err := http.Get(d.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	next := func() (parts page.Parts) {
		t.Helper()
		for lines.Scan() {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				if err := json.Unmarshal([]byte(data), &parts); err != nil {
					t.Fatal(err)
				}
				return parts
			}
		}
		t.Fatal("the events ended")
		return parts
	}
	if first := next(); !strings.Contains(string(first.Fixed["verdict"]), "nothing") || len(first.Groups) != 1 {
		t.Errorf("first: %+v", first)
	}
	looks <- blank("one", "pods")
	if second := next(); !strings.Contains(string(second.Rows["pods"]), "fine") || len(second.Groups["all"]) != 1 ||
		len(second.Fixed) != 2 {
		t.Errorf("second: %+v", second)
	}
	looks <- blank("one", "pods")
	looks <- blank("two", "pods")
	if third := next(); len(third.Rows) != 0 || third.Groups != nil || len(third.Fixed) != 1 {
		t.Errorf("third: %+v", third)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if rest, _ := io.ReadAll(response.Body); strings.Contains(string(rest), "data:") {
		t.Errorf("after the end: %q", rest)
	}
	response.Body.Close()
}

func TestItEndsAtOnceWhileALookHangsAndAPageIsOpen(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looking, ended := make(chan struct{}), make(chan error, 1)
	d, err := Listen(ctx, 0, Options{Blank: blank("nothing"), Every: time.Hour,
		Look: func(ctx context.Context) (page.View, page.Trouble) {
			close(looking)
			<-ctx.Done()
			ended <- ctx.Err()
			return page.View{}, page.Trouble{Error: "it was interrupted"}
		}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- d.Serve(ctx) }()
	response, err := http.Get(d.URL() + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	<-looking
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the look went on until %v", err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the open page was cut off: %v", err)
	}
}
