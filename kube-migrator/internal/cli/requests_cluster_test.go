// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

const widgets = testbed.WidgetCRD

// asked is a cluster with our API and no controller: the test writes the statuses.
type asked struct {
	*testbed.Cluster
	kubeconfig string
}

func (a *asked) run(ctx context.Context, args ...string) (code int, out, errors string) {
	var stdout, stderr lockedBuilder
	args = append([]string{"kube-migrator"}, append(args, "--kubeconfig", a.kubeconfig)...)
	code = Run(ctx, args, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// lockedBuilder may be read while a command writes.
type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// send sends a request; the answer is a migration.
func (a *asked) send(t *testing.T, method, path, body string) (m v1alpha1.StorageVersionMigration) {
	t.Helper()
	status, answer, err := a.Servers[0].Do(t.Context(), method, records.MigrationsPath+path, []byte(body))
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// status plays the controller.
func (a *asked) status(t *testing.T, name, status string) {
	t.Helper()
	a.send(t, http.MethodPatch, "/"+name+"/status", `{"status":`+status+`}`)
}

func succeededStatus(generation int, hash string) string {
	return fmt.Sprintf(`{"state":"Succeeded","completedGeneration":%d,"run":{"generation":%d},"storageVersion":"v2","storageVersionHash":"%s",
		"progress":{"total":3,"totalIsExact":true,"done":3,"rewritten":3,"current":0,"gone":0,"failed":0,"retried":0},"conditions":[{"type":"Succeeded","status":"True"}]}`, generation, generation, hash)
}

func failedStatus(generation int) string {
	return fmt.Sprintf(`{"state":"Failed","run":{"generation":%d},"progress":{"total":3,"done":3,"rewritten":2,"current":0,"gone":0,"failed":1,"retried":0},
		"failures":[{"namespace":"default","name":"w1","reason":"Rejected","message":"no color"}],"conditions":[{"type":"Failed","status":"True","message":"1 object was refused"}]}`, generation)
}

func TestCommandsOnARealCluster(t *testing.T) {
	t.Parallel()
	a := &asked{Cluster: testbed.New(t, testbed.Options{Users: []testbed.User{{Name: "guest"}}})}
	var err error
	if a.kubeconfig, err = a.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	if err := a.InstallWidgets(t.Context(), testbed.Widgets{Storage: "v2"}); err != nil {
		t.Fatal(err)
	}
	t.Run("without an installation every command says what to do", a.notInstalled)
	if err := a.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	t.Run("request asks once, and again", a.requesting)
	t.Run("pause, resume and cancel", a.steering)
	t.Run("progress", a.progressing)
	t.Run("wait", a.waiting)
	t.Run("every command writes JSON and YAML", a.writesData)
	t.Run("a permission that is lost", a.refusal)
	t.Run("an API server that stops", a.outage)
}

func (a *asked) notInstalled(t *testing.T) {
	for _, words := range [][]string{{"request", "widgets"}, {"pause", "widgets"}, {"cancel", "--all"},
		{"progress"}, {"wait", "widgets"}} {
		code, out, errors := a.run(t.Context(), words...)
		want := "error: kube-migrator is not installed in this cluster: it does not serve " +
			"migration.k8s.io/v1alpha1\nTry: kube-migrator install\n"
		if code != exit.Error || out != "" || errors != want {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", words, code, out, errors)
		}
	}
}

func (a *asked) expect(t *testing.T, code int, out string, words ...string) (errors string) {
	t.Helper()
	gotCode, gotOut, errors := a.run(t.Context(), words...)
	if gotCode != code || gotOut != out {
		t.Errorf("%v: exit code %d, stdout %q, want %d, %q\n%s", words, gotCode, gotOut, code, out, errors)
	}
	return errors
}

func (a *asked) requesting(t *testing.T) {
	a.expect(t, exit.Done, widgets+" requested (generation 1) (a dry run)\n", "request", "widgets", "--dry-run=client")
	a.expect(t, exit.Done, widgets+" requested (generation 1) (a dry run)\n", "request", "widgets", "--dry-run=server")
	errors := a.expect(t, exit.Done, widgets+" requested (generation 1)\n", "request", "widget", "--max-rate=50")
	if errors != "To watch: kube-migrator progress -w "+widgets+"\n" {
		t.Errorf("stderr %q", errors)
	}
	m := a.send(t, http.MethodGet, "/"+widgets, "")
	if s := m.Spec; s.Resource != (v1alpha1.GroupVersionResource{Group: "demo.example.com", Resource: "widgets"}) ||
		s.Reason != defaultReason ||
		s.Pace.MaxObjectsPerSecond != 50 || len(s.GroupVersions) != 2 || s.GroupVersions[0].Version != "v2" ||
		m.Labels["app.kubernetes.io/managed-by"] != "kube-migrator" {
		t.Errorf("spec %+v", s)
	}
	a.send(t, http.MethodPatch, "/"+widgets,
		`{"spec":{"state":"Paused","continueToken":"kept","pace":{"maxInFlight":7}}}`)
	errors = a.expect(t, exit.Done, records.MigrationPrefix+widgets+"\n", "request", widgets,
		"--reason=key rotation", "-o", "name")
	if errors != "" {
		t.Errorf("stderr %q", errors)
	}
	errors = a.expect(t, exit.Done, widgets+" requested (generation 3)\n", "request", "widgets", "--max-rate=60",
		"--max-bandwidth=1.5Mi")
	if !strings.HasPrefix(errors, widgets+" is paused: nothing happens before kube-migrator resume "+widgets+"\n") {
		t.Errorf("stderr %q", errors)
	}
	m = a.send(t, http.MethodGet, "/"+widgets, "")
	if s := m.Spec; s.Generation != 3 || s.State != v1alpha1.StatePaused || s.ContinueToken != "kept" ||
		s.Pace != (v1alpha1.Pace{MaxObjectsPerSecond: 60, MaxInFlight: 7, MaxBytesPerSecond: 3 << 19}) {
		t.Errorf("spec %+v", s)
	}
	_, out, _ := a.run(t.Context(), "request", "configmaps.v1.", "-o", "json")
	if err := json.Unmarshal([]byte(out), &m); err != nil || m.Name != "configmaps" || m.Spec.Resource.Version != "v1" {
		t.Errorf("%v: %s", err, out)
	}
	a.send(t, http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"secrets"},"spec":{"resource":{"resource":"pods"}}}`)
	if errors := a.expect(t, exit.Error, "", "request", "secrets"); !strings.Contains(errors,
		"is about another resource: pods\nTry: kubectl get ") {
		t.Errorf("stderr %q", errors)
	}
	if errors := a.expect(t, exit.Error, "", "request", "bindings"); !strings.Contains(errors,
		"bindings cannot be migrated: ") {
		t.Errorf("stderr %q", errors)
	}
	// A migration of an older version has no bounds.
	a.send(t, http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration",
		"metadata":{"name":"services"},"spec":{"resource":{"version":"v1","resource":"services"}}}`)
	if code, _, stderr := a.run(t.Context(), "request", "services"); code != exit.Done {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if s := a.send(t, http.MethodGet, "/services", "").Spec; s.Pace != (v1alpha1.Pace{
		MaxObjectsPerSecond: arg.DefaultRate, MaxInFlight: arg.DefaultInFlight}) {
		t.Errorf("spec %+v, want the default bounds", s)
	}
	if status, answer, err := a.Servers[0].Do(t.Context(), http.MethodDelete, records.MigrationsPath+"/services",
		nil); err != nil || status != http.StatusOK {
		t.Fatalf("DELETE: %d, %v: %s", status, err, answer)
	}
	a.expect(t, exit.Error, "", "request", "widgets", "--max-rate=-1")
	a.expect(t, exit.Error, "", "request")
}

func (a *asked) steering(t *testing.T) {
	// Another object of the same resource, by another name, is meant, too.
	a.send(t, http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"mine"},"spec":{"resource":{"group":"demo.example.com","resource":"widgets"}}}`)
	a.expect(t, exit.Done, "mine paused\n"+widgets+" was already paused\n", "pause", "widget")
	if m := a.send(t, http.MethodGet, "/mine", ""); m.Spec.State != v1alpha1.StatePaused {
		t.Errorf("state %s", m.Spec.State)
	}
	a.expect(t, exit.Done, "mine resumed\n", "resume", "mine")
	a.expect(t, exit.Done, "configmaps was already resumed\nmine was already resumed\nsecrets was already resumed\n"+
		widgets+" resumed\n", "resume", "--all")
	if errors := a.expect(t, exit.Done, "mine cancelled\n", "cancel", "mine"); !strings.Contains(errors,
		"Rewritten objects stay as they are. To request a migration again: kube-migrator request RESOURCE") {
		t.Errorf("stderr %q", errors)
	}
	a.expect(t, exit.Done, "secrets cancelled\n", "cancel", "pods")
	if m := a.send(t, http.MethodGet, "/mine", ""); m.Spec.State != v1alpha1.StateCancelled {
		t.Errorf("state %s", m.Spec.State)
	}
	a.expect(t, exit.Done, "mine was already cancelled\n", "cancel", "mine")
	const stays = "stays cancelled until kube-migrator request "
	for range 2 { // with a ConfigMap that is not there, and with one that is
		a.expect(t, exit.Done, "configmaps paused\nmine "+stays+widgets+"\nsecrets "+stays+"pods\n"+widgets+
			" paused\n", "pause", "--all")
		since := a.everythingPaused(t)
		if since == "" {
			t.Error("not everything is paused")
		}
		if errors := a.expect(t, exit.Done, "configmaps was already paused\nmine "+stays+widgets+"\nsecrets "+stays+
			"pods\n"+widgets+" was already paused\n", "pause", "--all"); a.everythingPaused(t) != since ||
			!strings.Contains(errors, "The controller requests no further migration until: kube-migrator resume --all\n") {
			t.Errorf("paused again: since %q, not %q: %s", a.everythingPaused(t), since, errors)
		}
		a.expect(t, exit.Done, "configmaps resumed\nmine "+stays+widgets+"\nsecrets "+stays+"pods\n"+widgets+
			" resumed\n", "resume", "--all")
		if since := a.everythingPaused(t); since != "" {
			t.Errorf("everything is paused since %q", since)
		}
	}
	for _, name := range []string{"mine", "secrets"} {
		a.remove(t, "/"+name)
	}
	if errors := a.expect(t, exit.Error, "", "pause",
		"widgts"); errors != "error: there is no StorageVersionMigration of \"widgts\"\nTry: kube-migrator pause "+
		widgets+"\n" {
		t.Errorf("stderr %q", errors)
	}
	a.expect(t, exit.Error, "", "pause")
}

// everythingPaused is what the controller reads.
func (a *asked) everythingPaused(t *testing.T) (since string) {
	t.Helper()
	client, err := apiserver.NewClient(a.Servers[0].Config())
	if err != nil {
		t.Fatal(err)
	}
	if since, err = install.Paused(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	return since
}

// remove deletes a migration, as kubectl does.
func (a *asked) remove(t *testing.T, path string) {
	t.Helper()
	if status, answer, err := a.Servers[0].Do(t.Context(), http.MethodDelete, records.MigrationsPath+
		path, nil); err != nil ||
		status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, answer)
	}
}

func (a *asked) progressing(t *testing.T) {
	code, out, _ := a.run(t.Context(), "progress", "widgets", "-o", "json")
	var p render.Progress
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != exit.Undetermined || len(p.Resources) != 1 ||
		p.Resources[0].PresentStorageVersionHash == "" {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	hash := p.Resources[0].PresentStorageVersionHash
	for _, test := range []struct {
		status, persisted string
		code              int
		says              string
	}{
		// without a StorageState
		{succeededStatus(3, hash), "", exit.Undetermined, "cannot be determined for " + widgets + "."},
		{succeededStatus(3, hash), v1alpha1.Unknown, exit.Undetermined,
			"versions that no one knows\n  Try: kube-migrator request " + widgets + "\n"},
		{succeededStatus(3, hash), hash, exit.Done, "An upgrade is safe now: everything of " + widgets +
			" is stored in the version that the API servers write."},
		{succeededStatus(3, "bm9uc2Vuc2U="), "bm9uc2Vuc2U=", exit.WorkLeft,
			"An upgrade is not safe now: " + widgets + "."},
		{failedStatus(3), "bm9uc2Vuc2U=", exit.Failures, "failed  default/w1: Rejected: no color"},
	} {
		a.status(t, widgets, `null`)
		a.status(t, widgets, test.status)
		a.state(t, hash, test.persisted)
		code, out, errors := a.run(t.Context(), "progress", "widgets")
		if code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("exit code %d, want %d and …%s…:\n%s%s", code, test.code, test.says, out, errors)
		}
		code, out, errors = a.run(t.Context(), "progress", "-w", widgets) // ends at once: nothing runs
		if code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("-w: exit code %d, want %d and …%s…:\n%s%s", code, test.code, test.says, out, errors)
		}
	}
	a.status(t, widgets, `null`)
	a.status(t, widgets, succeededStatus(3, hash))
	a.state(t, hash, hash)
	if err := a.MoveStorage(t.Context(), widgets, "v1"); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := a.run(t.Context(), "progress", "widgets", "-o", "wide"); code != exit.WorkLeft ||
		!strings.Contains(out, "may be stored as v2, not only as v1") {
		t.Errorf("after the storage version has moved: exit code %d:\n%s", code, out)
	}
	a.expect(t, exit.Done, "configmaps cancelled\n", "cancel", "configmaps")
	a.remove(t, "/configmaps")
	code, out, _ = a.run(t.Context(), "progress", "--include", "*.example.com")
	if code != exit.WorkLeft || !strings.Contains(out, "An upgrade is not safe now: "+widgets+".") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if code, _, errors := a.run(t.Context(), "progress", "--exclude", "*", "widgets"); code != exit.Error ||
		!strings.Contains(errors, "RESOURCE and --exclude cannot be used together") {
		t.Errorf("exit code %d: %s", code, errors)
	}
	if code, _, errors := a.run(t.Context(), "progress", "-w", "-o", "json"); code != exit.Error ||
		!strings.Contains(errors, "--watch and --output=json cannot be used together") {
		t.Errorf("exit code %d: %s", code, errors)
	}
}

// state writes the StorageState of widgets: the current hash, and the one that is recorded as persisted; without that
// it is deleted.
func (a *asked) state(t *testing.T, current, persisted string) {
	t.Helper()
	send := func(method, path, body string) int {
		t.Helper()
		status, answer, err := a.Servers[0].Do(t.Context(), method, records.StatesPath+path, []byte(body))
		if err != nil || status/100 != 2 && status != http.StatusNotFound && status != http.StatusConflict {
			t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
		}
		return status
	}
	if persisted == "" {
		send(http.MethodDelete, "/"+widgets, "")
		return
	}
	send(http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":"`+
		widgets+`"},"spec":{"resource":{"group":"demo.example.com","resource":"widgets"}}}`)
	send(http.MethodPatch, "/"+widgets+"/status",
		fmt.Sprintf(`{"status":{"currentStorageVersionHash":%q,"persistedStorageVersionHashes":[%q],"lastHeartbeatTime":%q}}`,
			current, persisted, time.Now().UTC().Format(time.RFC3339)))
}
