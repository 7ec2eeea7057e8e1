// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestTwentyResourcesAreMigratedAFewAtATime(t *testing.T) {
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
	const most = 4
	c.controller(fmt.Sprintf("--max-concurrent-migrations=%d", most))
	together := 0
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
				}
			case v1alpha1.PhaseSucceeded:
				succeeded = append(succeeded, m.Name)
			case v1alpha1.PhaseFailed, v1alpha1.PhasePaused:
				t.Fatalf("%s: %s", m.Name, m.Status.Summary)
			case v1alpha1.PhasePending:
			}
		}
		if together = max(together, len(running)); together > most {
			t.Fatalf("at work at the same time: %v", running)
		}
		if len(succeeded) == len(resources) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 5 minutes %d of %d have succeeded", len(succeeded), len(resources))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if together < most {
		t.Errorf("only %d were seen at work at the same time, want %d", together, most)
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
