// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// throughProxy is the same cluster, with a proxy that shows what a command asks the API server.
func (a *asked) throughProxy(t *testing.T, user string) (*asked, *testbed.Proxy) {
	t.Helper()
	proxy := testbed.NewProxy(t, a.Cluster)
	kubeconfig, err := a.KubeconfigFor(proxy.URL(), user)
	if err != nil {
		t.Fatal(err)
	}
	return &asked{Cluster: a.Cluster, kubeconfig: kubeconfig}, proxy
}

// untilListed waits until the StorageVersionMigrations were listed n times since the proxy forgot.
func untilListed(t *testing.T, proxy *testbed.Proxy, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		listed := 0
		for _, r := range proxy.Records() {
			if r.Path == records.MigrationsPath {
				listed++
			}
		}
		if listed >= n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the migrations were listed %d times within a minute, want %d", listed, n)
		}
	}
}

func (a *asked) waiting(t *testing.T) {
	watched, proxy := a.throughProxy(t, testbed.Admin)
	begin := func(words ...string) (result func() (int, string, string)) {
		proxy.Forget()
		done := make(chan func() (int, string, string), 1)
		go func() {
			code, out, errors := watched.run(t.Context(), words...)
			done <- func() (int, string, string) { return code, out, errors }
		}()
		return func() (int, string, string) {
			select {
			case result := <-done:
				return result()
			case <-time.After(time.Minute):
				t.Fatal("the command does not return")
				return 0, "", ""
			}
		}
	}
	a.expect(t, exit.Done, widgets+" requested (generation 4)\n", "request", "widgets")
	result := begin("wait", "widgets")
	untilListed(t, proxy, 2) // the success of generation 3 must not end it
	a.status(t, widgets, succeededStatus(4, "x"))
	if code, out, errors := result(); code != exit.Done || out != widgets+" succeeded\n" || errors != "" {
		t.Errorf("success: exit code %d, %q, %q", code, out, errors)
	}
	a.recording(t, proxy, begin)
	a.send(t, http.MethodPatch, "/"+widgets, `{"spec":{"generation":5,"state":"Paused"}}`)
	code, _, errors := a.run(t.Context(), "wait", "widgets", "--timeout=2500ms")
	want := widgets + " is paused: waiting for kube-migrator resume " + widgets +
		"\nerror: not finished within 2.5s: " + widgets + "\nTry: kube-migrator progress -w " + widgets + "\n"
	if code != exit.WorkLeft || errors != want {
		t.Errorf("timeout: exit code %d, %q, want %d, %q", code, errors, exit.WorkLeft, want)
	}
	result = begin("wait", "widgets")
	a.status(t, widgets, failedStatus(5))
	if code, out, _ := result(); code != exit.Failures || out != widgets+
		" failed: 1 object was refused\n  failed  default/w1: Rejected: no color\n" {
		t.Errorf("failure: exit code %d, %q", code, out)
	}
	a.expect(t, exit.Done, widgets+" requested (generation 6)\n", "request", "widgets")
	result = begin("wait", "widgets")
	untilListed(t, proxy, 2)
	a.expect(t, exit.Done, widgets+" cancelled\n", "cancel", "widgets")
	if code, _, errors := result(); code != exit.Undetermined ||
		!strings.HasSuffix(errors, "error: "+widgets+" is cancelled\nTry: kube-migrator request "+widgets+"\n") {
		t.Errorf("cancelled: exit code %d, %q", code, errors)
	}
	a.expect(t, exit.Done, widgets+" requested (generation 7)\n", "request", "widgets")
	if m := a.send(t, http.MethodGet, "/"+widgets, ""); m.Spec.State != v1alpha1.StateActive {
		t.Errorf("requested after it was cancelled: state %s", m.Spec.State)
	}
	result = begin("wait", "widgets")
	untilListed(t, proxy, 2)
	a.remove(t, "/"+widgets)
	if code, _, errors := result(); code != exit.Undetermined ||
		!strings.HasSuffix(errors, "error: "+widgets+" was deleted\nTry: kube-migrator request "+widgets+"\n") {
		t.Errorf("deleted: exit code %d, %q", code, errors)
	}
}

// recording plays a controller that records a success a moment later: neither wait nor progress -w ends before, so that
// progress does not answer that nothing is known.
func (a *asked) recording(t *testing.T, proxy *testbed.Proxy,
	begin func(words ...string) (result func() (int, string, string))) {
	hash := storageversion.Hash(schema.GroupVersionKind{Group: "demo.example.com", Version: "v1", Kind: "Widget"})
	a.state(t, hash, v1alpha1.Unknown)
	a.record(t, `{"status":{"requiredStartResourceVersion":"29","epoch":{"servers":["p1"]}}}`)
	a.status(t, widgets, `{"run":{"generation":4,"startResourceVersion":"30"},"storageVersionHash":"`+hash+
		`","epoch":{"servers":["p1"]}}`)
	commands := map[string]func() (int, string, string){"wait": begin("wait", "widgets"),
		"progress": begin("progress", "-w", "widgets")}
	untilListed(t, proxy, 5)
	a.state(t, hash, hash)
	for name, result := range commands {
		if code, out, errors := result(); code != exit.Done || errors != "" {
			t.Errorf("%s: exit code %d, %q, %q", name, code, out, errors)
		}
	}
	if code, out, _ := a.run(t.Context(), "progress", "widgets"); code != exit.Done {
		t.Errorf("progress: exit code %d: %s", code, out)
	}
}

// record writes to the status of the StorageState of widgets.
func (a *asked) record(t *testing.T, patch string) {
	t.Helper()
	if status, answer, err := a.Servers[0].Do(t.Context(), http.MethodPatch, records.StatesPath+"/"+widgets+"/status",
		[]byte(patch)); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, answer)
	}
}

// refusal takes the permission away from a user whose commands wait.
func (a *asked) refusal(t *testing.T) {
	a.expect(t, exit.Done, widgets+" requested (generation 1)\n", "request", "widgets")
	guest, proxy := a.throughProxy(t, "guest")
	const bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	binding := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"guest"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"guest"}]}`
	if status, answer, err := a.Servers[0].Do(t.Context(), http.MethodPost, bindings, []byte(binding)); err != nil ||
		status != http.StatusCreated {
		t.Fatalf("%d, %v: %s", status, err, answer)
	}
	// what the authorizer learns takes a moment
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if code, _, _ := guest.run(t.Context(), "progress", "widgets"); code != exit.Error {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the guest may not read")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type result struct {
		code   int
		errors string
	}
	proxy.Forget()
	results := map[string]chan result{"progress": make(chan result, 1), "wait": make(chan result, 1)}
	for command, ended := range results {
		words := map[string][]string{"progress": {"progress", "-w", "widgets"}, "wait": {"wait", "widgets"}}[command]
		go func() {
			code, _, errors := guest.run(ctx, words...)
			ended <- result{code, errors}
		}()
	}
	untilListed(t, proxy, 5)
	if status, _, err := a.Servers[0].Do(t.Context(), http.MethodDelete, bindings+"/guest", nil); err != nil ||
		status != http.StatusOK {
		t.Fatalf("%d, %v", status, err)
	}
	for command, ended := range results {
		if r := <-ended; r.code != exit.Error || !strings.Contains(r.errors, "forbidden") ||
			!strings.Contains(r.errors, "\nTry: kubectl auth can-i --list\n") {
			t.Errorf("%s: exit code %d, %q", command, r.code, r.errors)
		}
	}
	a.remove(t, "/"+widgets)
}

func (a *asked) outage(t *testing.T) {
	a.expect(t, exit.Done, widgets+" requested (generation 1)\n", "request", "widgets")
	var stdout, stderr lockedBuilder
	code := make(chan int, 1)
	go func() {
		code <- Run(t.Context(), []string{"kube-migrator", "progress", "-w", "widgets", "--kubeconfig", a.kubeconfig},
			Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within a minute\nstdout %s\nstderr %s", what, stdout.String(), stderr.String())
			}
		}
	}
	until("a line", func() bool { return strings.Contains(stdout.String(), widgets+"  Pending") })
	a.Servers[0].Kill()
	until("a note", func() bool { return strings.Contains(stderr.String(), "No answer, trying again: ") })
	if err := a.Servers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	until("another note", func() bool { return strings.Contains(stderr.String(), "The API server answers again.") })
	a.status(t, widgets, failedStatus(1))
	select {
	case got := <-code:
		if got != exit.Failures || strings.Count(stderr.String(), "No answer") != 1 {
			t.Errorf("exit code %d, stderr %s", got, stderr.String())
		}
	case <-time.After(time.Minute):
		t.Error("progress -w does not end")
	}
}
