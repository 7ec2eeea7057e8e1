// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestAControllerMigratesWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	const n = 600
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	before := snapshot(t, c.cluster, testbed.WidgetsPrefix)
	p := c.controller()
	// As kube-storage-version-migrator writes it, with a token that would skip everything.
	do(t, c.cluster, http.MethodPost, migrations,
		json.RawMessage(`{"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": {"name": "`+widgetsName+`"}, "spec": {"resource": {"group": "`+testbed.WidgetGroup+`", "version": "v1", "resource": "widgets"},
		"continueToken": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJ6eiJ9"}}`))
	m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))

	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v2"}) {
		t.Errorf("storedVersions = %v, want [v2]", claimed)
	}
	if changes := before.Diff(snapshot(t, c.cluster, testbed.WidgetsPrefix)); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
	s := m.Status
	if s.Progress.Done != n || s.Progress.Rewritten != n || s.Progress.Total != n || !s.Progress.TotalIsExact ||
		s.Progress.Failed != 0 {
		t.Errorf("progress is %+v", s.Progress)
	}
	if s.CompletedGeneration != 1 || s.Run.Generation != 1 || s.StorageVersion != "v2" || s.StorageVersionHash == "" {
		t.Errorf("status is %+v", s)
	}
	if s.Epoch == nil || s.Epoch.Evidence != "Observed" || s.Epoch.CRDUID == "" || s.ResourceVersion == "" {
		t.Errorf("epoch is %+v, baseline %q", s.Epoch, s.ResourceVersion)
	}
	if m.Spec.ContinueToken == "" {
		t.Error("spec.continueToken was not kept")
	}
	if m.Spec.Priority != v1alpha1.DefaultPriority {
		t.Errorf("priority %d, want the default", m.Spec.Priority)
	}
	eventually(t, "the checkpoint is removed", func() bool { return len(c.checkpoints()) == 0 })

	t.Run("and again when the generation is raised", func(t *testing.T) {
		c.change(widgetsName, `{"spec": {"generation": 2}}`)
		m := c.until(widgetsName, "succeeded again",
			func(m *v1alpha1.StorageVersionMigration) bool { return m.Status.CompletedGeneration == 2 })
		if p := m.Status.Progress; p.Current != n || p.Rewritten != 0 {
			t.Errorf("the second run: %+v, want all current", p)
		}
	})
	t.Run("a quota that forbids the run is told", func(t *testing.T) {
		const quotas, few = "/api/v1/namespaces/" + installation + "/resourcequotas", `{"count/configmaps": "0"}`
		do(t, c.cluster, http.MethodPost, quotas, json.RawMessage(`{"metadata": {"name": "few"}, "spec": {"hard": `+few+`}}`))
		do(t, c.cluster, http.MethodPatch, quotas+"/few/status",
			json.RawMessage(`{"status": {"hard": `+few+`, "used": `+few+`}}`))
		c.change(widgetsName, `{"spec": {"generation": 3}}`)
		m := c.until(widgetsName, "refused a run",
			func(m *v1alpha1.StorageVersionMigration) bool {
				return strings.HasPrefix(m.Status.Summary, "Cannot create")
			})
		if !strings.Contains(m.Status.Summary, "exceeded quota: few") || m.Status.State != v1alpha1.PhasePending ||
			m.Status.CompletedGeneration != 2 {
			t.Errorf("the status says %s: %s", m.Status.State, m.Status.Summary)
		}
		do(t, c.cluster, http.MethodDelete, quotas+"/few", nil)
		c.until(widgetsName, "succeeded once the quota is gone",
			func(m *v1alpha1.StorageVersionMigration) bool { return m.Status.CompletedGeneration == 3 })
	})
	if took := c.end(p); took > 10*time.Second {
		t.Errorf("an idle controller took %s to end", took)
	}
}

func TestPauseResumeAndDelete(t *testing.T) {
	t.Parallel()
	const n = 800
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.controller()
	c.ask(v1alpha1.StorageVersionMigrationSpec{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 60}})
	c.rewrote(100)
	c.change(widgetsName, `{"spec": {"state": "Paused"}}`)
	atRest := c.wantStill("it was paused")
	m := c.until(widgetsName, "paused", inPhase(v1alpha1.PhasePaused))
	if m.Status.Progress.Done == 0 || m.Status.Progress.Done == n {
		t.Errorf("paused with %+v", m.Status.Progress)
	}

	c.change(widgetsName, `{"spec": {"state": "Active"}}`)
	c.rewrote(atRest + 100)
	m = c.until(widgetsName, "running", inPhase(v1alpha1.PhaseRunning))
	if p := m.Status.Progress; p.Rewritten < int64(atRest) || p.Current > 500 {
		t.Errorf("resumed with %+v after %d were rewritten: it started over", p, atRest)
	}
	if m.Status.Run.Attempt != 1 {
		t.Errorf("attempt %d after a pause", m.Status.Run.Attempt)
	}

	do(t, c.cluster, http.MethodDelete, migrations+"/"+widgetsName, nil)
	left := c.wantStill("it was deleted")
	if left == n {
		t.Fatal("the sweep was over before it could be deleted")
	}
	eventually(t, "the checkpoint is removed", func() bool { return len(c.checkpoints()) == 0 })
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v1", "v2"}) {
		t.Errorf("storedVersions = %v without proof (I2)", claimed)
	}

	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
}

func TestAMissingPermissionIsNamedAndOthersGoOn(t *testing.T) {
	t.Parallel()
	const user = "limited"
	cluster := testbed.New(t, testbed.Options{Users: []testbed.User{{Name: user}}})
	installStale(t, cluster, testbed.Bulk{Count: 50}, testbed.Widgets{})
	c := newControlled(t, cluster)
	allow(t, cluster, user, []any{
		rule("", "configmaps", "get", "list", "watch", "create", "update", "delete", "patch"),
		rule("migration.k8s.io", "*", "*"), rule("coordination.k8s.io", "leases", "*"),
		rule("events.k8s.io", "events", "create", "patch"),
		rule("apiextensions.k8s.io", "*", "get", "list", "patch"),
		rule("apiregistration.k8s.io", "apiservices", "get", "list"),
		rule("discovery.k8s.io", "endpointslices", "get", "list"), rule("", "namespaces", "get"),
		rule(testbed.WidgetGroup, "widgets", "get", "list"),
	})
	kubeconfig, err := cluster.KubeconfigFor(cluster.Servers[0].URL(), user)
	if err != nil {
		t.Fatal(err)
	}
	c.kubeconfig = kubeconfig
	c.controller()
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	c.ask(v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Resource: "configmaps"}})
	for _, name := range []string{widgetsName, "configmaps"} { // nothing starts next to what cannot be seen (I8)
		c.until(name, "blocked by the unseen", func(m *v1alpha1.StorageVersionMigration) bool {
			return m.Status.State == v1alpha1.PhaseWaiting &&
				strings.Contains(m.Status.Summary, "cannot list resource \"storageversionmigrations\" in API group "+
					"\"storagemigration.k8s.io\"")
		})
	}
	allow(t, cluster, user+"-sees", []any{rule("storagemigration.k8s.io", "storageversionmigrations", "list")}, user)
	m := c.until(widgetsName, "failed", inPhase(v1alpha1.PhaseFailed))
	for _, word := range []string{"patch", widgetsName} {
		if !strings.Contains(m.Status.Summary, word) {
			t.Errorf("summary %q does not say %q", m.Status.Summary, word)
		}
	}
	for _, condition := range m.Status.Conditions {
		if condition.Type == v1alpha1.ConditionFailed &&
			(condition.Status != "True" || condition.Reason != "Forbidden") {
			t.Errorf("condition Failed is %+v", condition)
		}
	}
	c.until("configmaps", "succeeded", inPhase(v1alpha1.PhaseSucceeded))

	t.Run("and is tried again when it is given", func(t *testing.T) {
		allow(t, cluster, user+"-more", []any{rule(testbed.WidgetGroup, "widgets", "patch")}, user)
		m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
		if m.Status.Run.Failures == 0 {
			t.Errorf("run is %+v, want its failures counted", m.Status.Run)
		}
	})
}

// refuses waits until the API server refuses to change a widget.
func (c *controlled) refuses(name string) {
	c.Helper()
	eventually(c.T, "the policy is in force", func() bool {
		status, _, err := c.cluster.Servers[0].Do(c.Context(), http.MethodPatch, "/apis/"+testbed.WidgetGroup+
			"/v2/namespaces/default/widgets/"+name+"?dryRun=All", []byte(`{}`))
		return err == nil && status == http.StatusUnprocessableEntity
	})
}
