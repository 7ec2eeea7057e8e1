// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// resourceAt is a resource that discovery shows with a hash.
func resourceAt(name, hash string) inventory.Resource {
	return inventory.Resource{GroupResource: schema.ParseGroupResource(name), StorageVersionHash: hash, StorageVersion: schema.GroupVersion{Version: "v2"}}
}

// migrationOf is a migration of generation 1 with one true condition.
func migrationOf(resource string, phase v1alpha1.Phase, hash string, edits ...func(*v1alpha1.StorageVersionMigration)) v1alpha1.StorageVersionMigration {
	gr := schema.ParseGroupResource(resource)
	m := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: resource},
		Spec:       v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Group: gr.Group, Resource: gr.Resource}, Generation: 1, State: v1alpha1.Active},
		Status:     v1alpha1.StorageVersionMigrationStatus{State: phase, StorageVersionHash: hash, StorageVersion: "v1", Run: v1alpha1.Run{Generation: 1}},
	}
	is := v1alpha1.Reconciling
	switch phase {
	case v1alpha1.PhaseSucceeded:
		is, m.Status.CompletedGeneration = v1alpha1.Succeeded, 1
	case v1alpha1.PhaseFailed:
		is = v1alpha1.Failed
	case v1alpha1.PhasePending, v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning, v1alpha1.PhasePaused:
	}
	m.Status.Conditions = []v1alpha1.Condition{{Type: is, Status: metav1.ConditionTrue, Message: "So it is"}}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func raised(m *v1alpha1.StorageVersionMigration)   { m.Spec.Generation = 2 }
func isPaused(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.Paused }
func named(name string, age time.Duration) func(*v1alpha1.StorageVersionMigration) {
	return func(m *v1alpha1.StorageVersionMigration) {
		m.Name, m.CreationTimestamp = name, metav1.NewTime(time.Unix(1_000_000, 0).Add(-age))
	}
}

func TestWhetherAnUpgradeIsSafe(t *testing.T) {
	const done, failed, running = v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhaseRunning
	pods, secrets := resourceAt("pods", "now"), resourceAt("secrets", "now")
	claims := func(stored ...string) inventory.Resource {
		r := pods
		r.CRD = &inventory.CRD{StorageVersion: "v2", StoredVersions: stored}
		return r
	}
	computed := inventory.Resource{GroupResource: schema.GroupResource{Resource: "bindings"}, Problem: &inventory.Problem{Reason: inventory.NotPersisted}}
	shared := pods
	shared.Aliases = []schema.GroupVersionResource{{Group: "other", Version: "v1", Resource: "pods"}}
	for name, test := range map[string]struct {
		seen
		want render.Verdict
		says string
	}{
		"everything has succeeded":            {seen{resources: []inventory.Resource{pods, computed}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now")}}, render.Safe, "safe now: every object of every resource"},
		"there is nothing":                    {seen{}, render.Safe, "safe now"},
		"another version is stored now":       {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "then")}}, render.WorkLeft, "the storage version has changed since: migrated to v1, now it is"},
		"it does not say which version":       {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "")}}, render.Undetermined, "does not say for which version"},
		"discovery shows no version":          {seen{resources: []inventory.Resource{resourceAt("pods", "")}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "")}}, render.Undetermined, "discovery does not show"},
		"the definition claims the old one":   {seen{resources: []inventory.Resource{claims("v1", "v2")}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now")}}, render.WorkLeft, "claims that these versions are stored: v1, v2"},
		"the definition claims the new one":   {seen{resources: []inventory.Resource{claims("v2")}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now")}}, render.Safe, "safe now"},
		"another run was asked for":           {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now", raised)}}, render.WorkLeft, "generation 2 was requested"},
		"another run was asked after failure": {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", failed, "now", raised)}}, render.WorkLeft, "generation 2 was requested"},
		"a completed generation without the condition": {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", running, "now",
			func(m *v1alpha1.StorageVersionMigration) { m.Status.CompletedGeneration = 1 })}}, render.WorkLeft, "So it is"},
		"it runs":                    {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", running, "now")}}, render.WorkLeft, "So it is"},
		"it is paused":               {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", v1alpha1.PhasePaused, "now", isPaused)}}, render.WorkLeft, "it is paused"},
		"paused when all was done":   {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now", isPaused)}}, render.Safe, "safe now"},
		"it has failed":              {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", failed, "now")}}, render.HasFailures, "the migration failed of pods."},
		"nobody has asked":           {seen{resources: []inventory.Resource{pods, secrets}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now")}}, render.Undetermined, "no migration was requested of secrets."},
		"what is named and computed": {seen{resources: []inventory.Resource{computed}, named: true}, render.Safe, "every object of bindings"},
		"a part that cannot be seen": {seen{failures: []inventory.Failure{{What: "v1"}}}, render.Undetermined, "a part of the cluster could not be looked at"},
		"a part that is not named":   {seen{named: true, resources: []inventory.Resource{pods}, failures: []inventory.Failure{{What: "v1"}}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", done, "now")}}, render.Safe, "every object of pods is"},
		"what is not served":         {seen{gone: []v1alpha1.StorageVersionMigration{migrationOf("gadgets", done, "now")}}, render.Undetermined, "gadgets"},
		"failed before work left":    {seen{resources: []inventory.Resource{pods, secrets}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods", failed, ""), migrationOf("secrets", running, "")}}, render.HasFailures, "pods."},
		"work left before unknown":   {seen{resources: []inventory.Resource{pods, secrets}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("secrets", running, "")}}, render.WorkLeft, "on secrets."},
		"any success with the present version counts": {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{
			migrationOf("pods", failed, "now", named("new", 0)), migrationOf("pods", done, "now", named("old", time.Hour))}}, render.Safe, "safe now"},
		"else the newest counts": {seen{resources: []inventory.Resource{pods}, migrations: []v1alpha1.StorageVersionMigration{
			migrationOf("pods", failed, "now", named("old", time.Hour)), migrationOf("pods", running, "now", named("new", 0))}}, render.WorkLeft, "on pods."},
		"another name of shared storage": {seen{resources: []inventory.Resource{shared}, migrations: []v1alpha1.StorageVersionMigration{migrationOf("pods.other", done, "now")}}, render.Safe, "safe now"},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.judge()
			said := []string{p.Sentence}
			for _, r := range p.Resources {
				said = append(said, r.Why)
			}
			if p.Verdict != test.want || !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, test.says) }) {
				t.Errorf("got %s: %q, want %s: …%s…", p.Verdict, said, test.want, test.says)
			}
		})
	}
}

func TestASentenceNamesAtMostFive(t *testing.T) {
	var s seen
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		s.resources = append(s.resources, resourceAt(name, "now"))
	}
	p := s.judge()
	if want := "a, b, c, d, e and 2 more."; !strings.HasSuffix(p.Sentence, want) || len(p.NotCovered) != 7 || len(p.Resources) != 0 {
		t.Errorf("got %q and %d not covered, want …%s and 7", p.Sentence, len(p.NotCovered), want)
	}
}

func TestEveryVerdictHasItsExitCode(t *testing.T) {
	for verdict, want := range map[render.Verdict]int{render.Safe: 0, render.WorkLeft: 2, render.Undetermined: 3, render.HasFailures: 4} {
		if got := exitOf(verdict); got != want {
			t.Errorf("%s: exit code %d, want %d", verdict, got, want)
		}
	}
}
