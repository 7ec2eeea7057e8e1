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
	const n = 1000
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

func TestTwentyResourcesAreMigratedOneAfterAnother(t *testing.T) {
	t.Parallel()
	c := newControlled(t, testbed.New(t, testbed.Options{}))
	resources := []v1alpha1.GroupVersionResource{
		{Resource: "configmaps"}, {Resource: "secrets"}, {Resource: "services"},
		{Resource: "endpoints"}, {Resource: "pods"},
		{Resource: "serviceaccounts"}, {Resource: "namespaces"}, {Resource: "limitranges"},
		{Resource: "resourcequotas"}, {Resource: "podtemplates"},
		{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "statefulsets"},
		{Group: "batch", Resource: "jobs"}, {Group: "batch", Resource: "cronjobs"},
		{Group: "policy", Resource: "poddisruptionbudgets"},
		{Group: "rbac.authorization.k8s.io", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
		{Group: "storage.k8s.io", Resource: "storageclasses"},
		{Group: "scheduling.k8s.io", Resource: "priorityclasses"},
	}
	for _, r := range resources {
		c.ask(v1alpha1.StorageVersionMigrationSpec{Resource: r})
	}
	c.controller()
	seen := map[string]bool{}
	deadline := time.Now().Add(5 * time.Minute)
	for {
		var list v1alpha1.StorageVersionMigrationList
		get(t, c.cluster, migrations, &list)
		var running, succeeded []string
		for _, m := range list.Items {
			switch m.Status.State {
			case v1alpha1.PhaseRunning, v1alpha1.PhaseWaiting:
				if !strings.HasPrefix(m.Status.Summary, "Confirming") { // that writes nothing, and needs no turn
					running = append(running, m.Name)
					seen[m.Name] = true
				}
			case v1alpha1.PhaseSucceeded:
				succeeded = append(succeeded, m.Name)
			case v1alpha1.PhaseFailed, v1alpha1.PhasePaused:
				t.Fatalf("%s: %s", m.Name, m.Status.Summary)
			case v1alpha1.PhasePending:
			}
		}
		if len(running) > 1 {
			t.Fatalf("at work at the same time: %v (I8)", running)
		}
		if len(succeeded) == len(resources) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 5 minutes %d of %d have succeeded", len(succeeded), len(resources))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(seen) < len(resources)/2 {
		t.Errorf("only %d were seen at work: the test looked too seldom to see two at once", len(seen))
	}
}

func TestARaisedGenerationStopsTheOldSweep(t *testing.T) {
	t.Parallel()
	const n = 1000
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.controller()
	c.ask(v1alpha1.StorageVersionMigrationSpec{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 100}})
	c.rewrote(150)
	c.change(widgetsName, `{"spec": {"generation": 2, "pace": {"maxObjectsPerSecond": 0}}}`)
	m := c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if m.Status.CompletedGeneration != 2 || m.Status.Run.Generation != 2 || m.Status.Run.Attempt != 1 {
		t.Errorf("status is %+v", m.Status)
	}
	if p := m.Status.Progress; p.Done != n || p.Current == 0 {
		t.Errorf("the new sweep did %+v, want all %d from the beginning", p, n)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
}

func TestPauseResumeAndDelete(t *testing.T) {
	t.Parallel()
	const n = 1600
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	c.controller()
	c.ask(v1alpha1.StorageVersionMigrationSpec{Pace: v1alpha1.Pace{MaxObjectsPerSecond: 100}})
	c.rewrote(200)
	c.change(widgetsName, `{"spec": {"state": "Paused"}}`)
	atRest := c.wantStill("it was paused")
	m := c.until(widgetsName, "paused", inPhase(v1alpha1.PhasePaused))
	if m.Status.Progress.Done == 0 || m.Status.Progress.Done == n {
		t.Errorf("paused with %+v", m.Status.Progress)
	}

	c.change(widgetsName, `{"spec": {"state": "Active"}}`)
	c.rewrote(atRest + 200)
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

func TestAFailureStaysReadableUntilItIsFixed(t *testing.T) {
	t.Parallel()
	const n = 200
	c := newControlled(t, testbed.New(t, testbed.Options{}))
	installStale(t, c.cluster, testbed.Bulk{Count: n}, testbed.Widgets{})
	do(t, c.cluster, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		json.RawMessage(`{
		"metadata": {"name": "no-seven"}, "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": ["`+testbed.WidgetGroup+`"],
		"apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["widgets"]}]},
		"validations": [{"expression": "object.metadata.name != 'widget-0000007'", "message": "seven is refused"}]}}`))
	do(
		t,
		c.cluster,
		http.MethodPost,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
		json.RawMessage(
			`{"metadata": {"name": "no-seven"}, "spec": {"policyName": "no-seven", "validationActions": ["Deny"]}}`,
		),
	)
	c.refuses("widget-0000007")
	c.controller("--retry-after=4s")
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	m := c.until(widgetsName, "failed", inPhase(v1alpha1.PhaseFailed))
	if len(m.Status.Failures) != 1 || m.Status.Failures[0].Name != "widget-0000007" ||
		!strings.Contains(m.Status.Failures[0].Message, "seven is refused") {
		t.Fatalf("failures are %+v", m.Status.Failures)
	}
	if m.Status.Progress.Failed != 1 || m.Status.Progress.Done != n || m.Status.CompletedGeneration != 0 {
		t.Errorf("status is %+v", m.Status)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: 1, v2: n - 1})
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v1", "v2"}) {
		t.Errorf("storedVersions = %v (I2)", claimed)
	}
	second := c.until(widgetsName, "tried again", func(m *v1alpha1.StorageVersionMigration) bool {
		if len(m.Status.Failures) != 1 {
			t.Fatalf("the failures are not readable meanwhile: %+v", m.Status)
		}
		return m.Status.Run.Failures == 2
	})
	if wait := second.Status.Run.RetryTime.Sub(m.Status.Run.RetryTime.Time); wait < 8*time.Second {
		t.Errorf("the second retry is due %s after the first, want the backoff doubled", wait)
	}
	do(
		t,
		c.cluster,
		http.MethodDelete,
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/no-seven",
		nil,
	)
	m = c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if len(m.Status.Failures) != 0 || m.Status.Progress.Failed != 0 {
		t.Errorf("status is %+v", m.Status)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})

	t.Run("a Role of any name is migrated, and a failed one is named", func(t *testing.T) {
		roles := *c
		roles.T = t
		rolesOfAnyNameAreMigrated(t, &roles)
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

func TestAnInTreeMigrationOfTheSameResourceIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 50, testbed.Widgets{}))
	const inTree = "/apis/storagemigration.k8s.io/v1/storageversionmigrations"
	do(t, c.cluster, http.MethodPost, inTree,
		json.RawMessage(`{"metadata": {"name": "theirs"}, "spec": {"resource": {"group": "`+testbed.WidgetGroup+
			`", "resource": "widgets"}}}`))
	c.controller()
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	m := c.until(widgetsName, "waiting", inPhase(v1alpha1.PhaseWaiting))
	if !strings.Contains(m.Status.Summary, "theirs") {
		t.Errorf("summary %q does not name whom it waits for", m.Status.Summary)
	}
	if held := c.wantStill("someone else migrates"); held != 0 {
		t.Errorf("%d widgets were rewritten", held)
	}
	do(t, c.cluster, http.MethodDelete, inTree+"/theirs", nil)
	c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
}

func TestAtStartUpEveryResourceIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newControlled(t, testbed.New(t, testbed.Options{}))
	c.controller("--auto-trigger", "--bootstrap=all", "--exclude=*.rbac.authorization.k8s.io",
		"--max-concurrent-migrations=8")
	c.until("configmaps", "asked for", func(*v1alpha1.StorageVersionMigration) bool { return true })
	m := c.until("storageclasses.storage.k8s.io", "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if len(m.OwnerReferences) != 1 || m.OwnerReferences[0].Kind != "Namespace" ||
		m.OwnerReferences[0].Name != installation || m.Spec.Reason == "" {
		t.Errorf("made as %+v for %q", m.OwnerReferences, m.Spec.Reason)
	}
	var list v1alpha1.StorageVersionMigrationList
	get(t, c.cluster, migrations, &list)
	events := 0
	for _, m := range list.Items {
		if m.Spec.Resource.Group == "rbac.authorization.k8s.io" {
			t.Errorf("%s was excluded", m.Name)
		}
		if m.Spec.Resource.Resource == "events" {
			events++
		}
		if p := m.Spec.Priority; p < 1 || p >= v1alpha1.DefaultPriority {
			t.Errorf("%s has the priority %d: as much as what a person asks for", m.Name, p)
		}
	}
	if len(list.Items) < 30 || events != 1 {
		t.Errorf("%d migrations, %d of them of events; want at least 30, and one", len(list.Items), events)
	}
}
