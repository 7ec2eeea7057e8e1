// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

func TestMigrateByHandRecordsItsProof(t *testing.T) {
	t.Parallel()
	const n, user = 100, "without-status"
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: user}}})
	installStale(t, cluster, testbed.Bulk{Count: n}, testbed.Widgets{})
	admin := newCLI(t, cluster)
	if got := admin.migrate(0, "widgets"); got.StorageState != nil || got.StorageStateKept != "" {
		t.Errorf("without an installation: recorded %v, kept because %q", got.StorageState, got.StorageStateKept)
	}

	c := newControlled(t, cluster)
	watchTruth(t, cluster, widgetKind)
	before := admin.migrate(0, "widgets")
	if before.StorageState != nil || !strings.Contains(before.StorageStateKept, "did not exist when the run started") {
		t.Errorf("without a StorageState: recorded %v, kept because %q", before.StorageState, before.StorageStateKept)
	}
	c.controller("--auto-trigger=false", "--discovery-period=1s")
	c.looked(widgetsName)

	t.Run("not where the user may not write it", func(t *testing.T) {
		allow(t, cluster, user, []any{
			rule(testbed.WidgetGroup, "widgets", "get", "list", "patch"),
			rule("apiextensions.k8s.io", "customresourcedefinitions", "get", "list", "patch", "update"),
			rule("apiregistration.k8s.io", "apiservices", "get", "list"),
			rule("coordination.k8s.io", "leases", "get", "list"),
			rule("discovery.k8s.io", "endpointslices", "get", "list"), rule("", "namespaces", "get"),
			map[string]any{"apiGroups": []string{"migration.k8s.io"}, "resources": []string{"storagestates"},
				"verbs": []string{"get", "list"}},
		})
		kubeconfig, err := cluster.KubeconfigFor(cluster.Servers[0].URL(), user)
		if err != nil {
			t.Fatal(err)
		}
		got := newCLIWith(t, cluster, kubeconfig).migrate(0, "widgets")
		if got.Outcome != render.Proven || got.StorageState != nil ||
			!strings.Contains(got.StorageStateKept, `cannot patch resource "storagestates/status"`) {
			t.Errorf("%s: recorded %v, kept because %q", got.Outcome, got.StorageState, got.StorageStateKept)
		}
	})
	t.Run("not where it went on from a checkpoint", func(t *testing.T) {
		if got := admin.migrate(0, "widgets", "--resume"); got.StorageState != nil ||
			!strings.Contains(got.StorageStateKept, "went on from a checkpoint") {
			t.Errorf("recorded %v, kept because %q", got.StorageState, got.StorageStateKept)
		}
	})
	t.Run("not where something else may have been written meanwhile", func(t *testing.T) {
		_, wait := admin.start("migrate", "--settle-time=6s", anyRate, anyInFlight, "-o", "json", "widgets")
		time.Sleep(time.Second) // it has read the StorageState, and waits for the settle time
		required := c.state(widgetsName).Status.RequiredStartResourceVersion
		do(t, cluster, http.MethodPatch, states+"/"+widgetsName+"/status",
			map[string]any{"status": map[string]any{"requiredStartResourceVersion": required + "0"}})
		if got := succeeded(t, wait()); got.StorageState != nil ||
			!strings.Contains(got.StorageStateKept, "since the run started") {
			t.Errorf("recorded %v, kept because %q", got.StorageState, got.StorageStateKept)
		}
	})
	if s := c.state(widgetsName); !unknown(s) {
		t.Errorf("state is %+v", s.Status)
	}
	got := admin.migrate(0, "widgets")
	if !slices.Equal(got.StorageState, []string{"v2"}) || got.StorageStateKept != "" {
		t.Errorf("recorded %v, kept because %q", got.StorageState, got.StorageStateKept)
	}
	if s := c.state(widgetsName); !persistedOnly("v2")(s) {
		t.Errorf("state is %+v", s.Status)
	}
	s := c.looked(widgetsName)
	if !persistedOnly("v2")(s) || s.Status.Proven == nil {
		t.Errorf("after other looks the state is %+v", s.Status)
	}

	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	decode(t, do(t, cluster, http.MethodGet, "/apis/"+v2+"/widgets?limit=1", nil), &list)
	do(t, cluster, http.MethodPatch, states+"/"+widgetsName+"/status", map[string]any{"status": map[string]any{
		"persistedStorageVersionHashes": []string{v1alpha1.Unknown}, "conditions": []any{},
		"proven": map[string]any{"resourceVersion": list.Metadata.ResourceVersion}}})
	for _, test := range []struct {
		selection []string
		patches   int
	}{{[]string{"--include=" + widgetsName}, 0}, {[]string{"--include=" + widgetsName, "--force"}, n}, {[]string{"widgets"}, n}} {
		user, proxy := throughProxy(t, cluster)
		if got := user.migrate(0, test.selection...); got.Result.Counts.Current != n {
			t.Errorf("%v: %+v", test.selection, got.Result.Counts)
		}
		if sent := len(patches(proxy)); sent != test.patches {
			t.Errorf("%v: %d patches, want %d", test.selection, sent, test.patches)
		}
	}
}

func TestGroupVersionsAreFilledAndRefreshedForEveryMigration(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 10, testbed.Widgets{}))
	c.asPeer("widgets-by-a-client", "")
	c.ask(v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Group: "events.k8s.io",
		Resource: "events"}})
	do(t, c.cluster, http.MethodPost, migrations+"?fieldManager=someone", map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": "kept"},
		"spec": map[string]any{"state": "Paused",
			"resource":      map[string]any{"group": testbed.WidgetGroup, "resource": "widgets"},
			"groupVersions": []any{map[string]any{"group": "mine", "version": "v9"}}},
	})
	c.controller("--auto-trigger=false")
	served := func(want ...v1alpha1.GroupVersion) func(*v1alpha1.StorageVersionMigration) bool {
		return func(m *v1alpha1.StorageVersionMigration) bool { return slices.Equal(m.Spec.GroupVersions, want) }
	}
	core, events := v1alpha1.GroupVersion{Version: "v1"}, v1alpha1.GroupVersion{Group: "events.k8s.io", Version: "v1"}
	c.until("events.events.k8s.io", "filled with both groups", served(core, events))
	both := []v1alpha1.GroupVersion{{Group: testbed.WidgetGroup, Version: "v2"},
		{Group: testbed.WidgetGroup, Version: "v1"}}
	c.until("widgets-by-a-client", "filled", served(both...))

	// The API's documentation says what a client of the proposal compares, also where metadata.generation is another
	// number.
	m := c.until("widgets-by-a-client", "succeeded, and at rest", func(m *v1alpha1.StorageVersionMigration) bool {
		return m.Status.CompletedGeneration == m.Spec.Generation && m.Status.ObservedGeneration == 0
	})
	if m.Generation == m.Spec.Generation || m.Status.Run.Generation != m.Spec.Generation {
		t.Errorf("generations: %d, spec %d, observed %d, of the run %d", m.Generation, m.Spec.Generation,
			m.Status.ObservedGeneration, m.Status.Run.Generation)
	}

	d := widgetCRD(t, c.cluster)
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Served = d.Spec.Versions[i].Name == "v2"
	}
	do(t, c.cluster, http.MethodPut, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+
		testbed.WidgetCRD, d)
	c.until("widgets-by-a-client", "refreshed", served(both[0]))
	if kept, err := c.read("kept"); err != nil || !served(v1alpha1.GroupVersion{Group: "mine", Version: "v9"})(kept) {
		t.Errorf("what someone else applies was written: %v (%v)", kept.Spec.GroupVersions, err)
	}
}

// Everything is cancelled, or paused, while a controller that asks by itself has just begun with everything.
func TestACancelledMigrationStaysSoUntilSomeoneAsks(t *testing.T) {
	t.Parallel()
	const n = 1200
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.asPeer("widgets-by-a-client", "")
	// there is none of ours, and nothing is to be done about widgets
	c.change("widgets-by-a-client", `{"spec": {"state": "Cancelled"}}`)
	c.triggering("--include=widgets.*", "--include=config*", "--discovery-period=1s", "--settle-time=3s")
	user := newCLI(t, c.cluster)
	c.until("configmaps", "asked for", func(*v1alpha1.StorageVersionMigration) bool { return true })
	user.run(0, "pause", "--all")
	c.until("configmaps", "paused", inPhase(v1alpha1.PhasePaused))
	user.run(0, "resume", "--all")
	user.run(0, "cancel", "--all")
	c.until("configmaps", "cancelled", inPhase(v1alpha1.PhaseCancelled))
	eventually(t, "its checkpoint is removed", func() bool { return len(c.checkpoints()) == 0 })
	if s := c.looked("configmaps"); !unknown(s) {
		t.Errorf("what was cancelled is %+v", s.Status)
	}
	if s := c.looked(widgetsName); !unknown(s) || c.generation(widgetsName) != 0 {
		t.Errorf("what a user cancelled was asked for again: %+v", s.Status)
	}
	c.until("configmaps", "still cancelled", inPhase(v1alpha1.PhaseCancelled))

	// In the middle of a sweep, and through a restart of what is needed.
	user.run(0, "request", "widgets", "--max-rate=120")
	c.rewrote(180)
	user.run(0, "cancel", "widgets")
	left := c.wantStill("it was cancelled")
	if left == n {
		t.Fatal("the sweep was over before it could be cancelled")
	}
	moveStorage(t, c.cluster, "v1")
	c.looked(widgetsName)
	m, err := c.read(widgetsName)
	if err != nil || m.Status.State != v1alpha1.PhaseCancelled || m.Spec.Generation != 1 {
		t.Errorf("after another change: generation %d, %s (%v)", m.Spec.Generation, m.Status.State, err)
	}
	user.run(0, "request", "widgets", "--max-rate=0")
	c.untilState(widgetsName, "proven", persistedOnly("v1"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
}

// With --bootstrap=none, a resource that was asked for once is migrated by itself from then on, also after its
// migration has expired.
func TestAMigrationThatHasExpiredIsAskedForAgainWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	const n = 100
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.triggering("--bootstrap=none", "--discovery-period=1s")
	s := c.looked(widgetsName)
	if s.Status.Requested || c.generation(widgetsName) != 0 {
		t.Fatalf("no one has asked for widgets: %+v", s.Status)
	}
	c.ask(v1alpha1.StorageVersionMigrationSpec{TTLSecondsAfterFinished: new(int32(0))})
	c.untilState(widgetsName, "proven", func(s *v1alpha1.StorageState) bool {
		return persistedOnly("v2")(s) &&
			s.Status.Requested
	})
	eventually(t, "the migration has expired", func() bool { return c.generation(widgetsName) == 0 })
	if s := c.state(widgetsName); !persistedOnly("v2")(s) {
		t.Errorf("after its migration has expired the state is %+v", s.Status)
	}
	moveStorage(t, c.cluster, "v1")
	c.untilState(widgetsName, "proven again", persistedOnly("v1"))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: n})
	if names := c.migrationsOfWidgets(); !slices.Equal(names, []string{widgetsName}) {
		t.Errorf("migrations of widgets are %v, want one of ours", names)
	}
	if c.generation("configmaps") != 0 {
		t.Error("configmaps are migrated, for which no one has asked")
	}
}
