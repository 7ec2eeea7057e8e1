// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

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
		Status: v1alpha1.StorageVersionMigrationStatus{
			State: phase, StorageVersionHash: hash, StorageVersion: "v1", Run: v1alpha1.Run{Generation: 1},
			Epoch: &v1alpha1.Epoch{Servers: []string{"api-1"}, Evidence: "Observed", CRDUID: "u", CRDGeneration: 7},
		},
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
		r.CRD = &inventory.CRD{UID: "u", Generation: 7, StorageVersion: "v2", StoredVersions: stored}
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
			test.servers = apiServers{holders: []string{"api-1"}}
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

func TestAnOldSuccessIsSafeOnlyWhileNothingCanHaveWrittenAnotherVersion(t *testing.T) {
	now := time.Unix(2_000_000, 0)
	done := migrationOf("pods", v1alpha1.PhaseSucceeded, "now")
	sampled := migrationOf("pods", v1alpha1.PhaseSucceeded, "now", func(m *v1alpha1.StorageVersionMigration) { m.Status.Epoch.Evidence = "Sampled" })
	without := migrationOf("pods", v1alpha1.PhaseSucceeded, "now", func(m *v1alpha1.StorageVersionMigration) { m.Status.Epoch = nil })
	aggregated := migrationOf("pods", v1alpha1.PhaseSucceeded, "now", func(m *v1alpha1.StorageVersionMigration) { m.Status.Epoch.Servers = nil })
	builtIn := resourceAt("pods", "now")
	custom := func(uid types.UID, generation int64) inventory.Resource {
		r := builtIn
		r.CRD = &inventory.CRD{UID: uid, Generation: generation, StorageVersion: "v2", StoredVersions: []string{"v2"}}
		return r
	}
	same, other := apiServers{holders: []string{"api-1"}}, apiServers{holders: []string{"api-2"}}
	state := func(age time.Duration, current string, persisted ...string) map[string]v1alpha1.StorageState {
		return map[string]v1alpha1.StorageState{"pods": {Status: v1alpha1.StorageStateStatus{
			CurrentStorageVersionHash: current, PersistedStorageVersionHashes: persisted, LastHeartbeatTime: metav1.NewTime(now.Add(-age)),
		}}}
	}
	for name, test := range map[string]struct {
		migration v1alpha1.StorageVersionMigration
		resource  inventory.Resource
		servers   apiServers
		states    map[string]v1alpha1.StorageState
		want      render.Verdict
		says      string
	}{
		"the same API servers":                {done, builtIn, same, nil, render.Safe, ""},
		"another API server":                  {done, builtIn, other, nil, render.Undetermined, "API servers were started or stopped"},
		"one more API server":                 {done, builtIn, apiServers{holders: []string{"api-1", "api-2"}}, nil, render.Undetermined, "API servers were started or stopped"},
		"API servers that cannot be known":    {done, builtIn, apiServers{unknown: "no Leases"}, nil, render.Undetermined, "no Leases"},
		"evidence that shows no restarts":     {sampled, builtIn, same, nil, render.Undetermined, "the evidence is Sampled"},
		"no epoch":                            {without, builtIn, same, nil, render.Undetermined, "does not say in which epoch"},
		"servers behind an APIService":        {aggregated, builtIn, apiServers{}, nil, render.Undetermined, "nothing shows"},
		"the same definition":                 {done, custom("u", 7), other, nil, render.Safe, ""},
		"the definition was changed":          {done, custom("u", 8), same, nil, render.Undetermined, "its definition has changed"},
		"the definition was made anew":        {done, custom("v", 7), same, nil, render.Undetermined, "its definition has changed"},
		"a state that says the same":          {done, builtIn, other, state(time.Minute, "now", "now"), render.Safe, ""},
		"a state that nobody has kept lately": {done, builtIn, other, state(time.Hour, "now", "now"), render.Undetermined, "API servers were started or stopped"},
		"an old state in the same epoch":      {done, builtIn, same, state(time.Hour, "now", "now"), render.Safe, ""},
		"a state with unknown versions":       {done, builtIn, same, state(time.Minute, "now", "Unknown", "now"), render.Undetermined, "nobody can name"},
		"a state with two versions":           {done, builtIn, same, state(time.Minute, "now", "then", "now"), render.WorkLeft, "may be stored: then, now"},
		"a state with another version":        {done, builtIn, same, state(time.Minute, "now", "then"), render.WorkLeft, "another version is stored"},
		"a state of another discovery":        {done, builtIn, same, state(time.Minute, "then", "then"), render.WorkLeft, "another version is stored"},
		"a state while servers disagree":      {done, builtIn, same, state(time.Minute, "Unknown", "now"), render.Undetermined, "do not agree"},
		"a state without a word":              {done, builtIn, same, state(time.Minute, "now"), render.Undetermined, "does not say yet"},
	} {
		t.Run(name, func(t *testing.T) {
			p := seen{
				name: "kube-migrator", now: now, resources: []inventory.Resource{test.resource}, states: test.states, servers: test.servers,
				migrations: []v1alpha1.StorageVersionMigration{test.migration},
			}.judge()
			if p.Verdict != test.want || !strings.Contains(p.Resources[0].Why, test.says) {
				t.Errorf("got %s: %s, want %s: …%s…", p.Verdict, p.Resources[0].Why, test.want, test.says)
			}
			if try := "kube-migrator request pods"; (p.Try == try) != (test.want == render.Undetermined) {
				t.Errorf("Try: %q", p.Try)
			}
		})
	}
}

func TestAServerThatDoesNotRenewItsLeaseDoesNotCount(t *testing.T) {
	lease := func(holder string, age time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(time.Unix(1_000_000, 0).Add(-age)))}}
	}
	got := serversOf([]coordinationv1.Lease{lease("b", 0), lease("gone", 2*time.Minute), lease("a", 10*time.Second)})
	if !slices.Equal(got.holders, []string{"a", "b"}) || got.unknown != "" {
		t.Errorf("got %+v", got)
	}
	if got := serversOf(nil); got.unknown == "" {
		t.Error("no Lease counts as known")
	}
}

func TestTheRunBeforeIsNotCountedForOneThatWaits(t *testing.T) {
	m := migrationOf("pods", v1alpha1.PhasePending, "now", raised)
	m.Status.Progress = v1alpha1.Progress{Total: 2, Done: 2, TotalIsExact: true}
	p := seen{resources: []inventory.Resource{resourceAt("pods", "now")}, migrations: []v1alpha1.StorageVersionMigration{m}}.judge()
	if r := p.Resources[0]; r.Done != 0 || r.Total != 0 || r.StorageVersion != "" || p.Total.Done != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestAMigrationOfWhatIsGoneThatFailedIsFinished(t *testing.T) {
	failed, running := migrationOf("gadgets", v1alpha1.PhaseFailed, ""), migrationOf("gadgets", v1alpha1.PhaseRunning, "")
	p := seen{name: "kube-migrator", gone: []v1alpha1.StorageVersionMigration{failed}}.judge()
	if p.Unfinished() || p.Try != "kube-migrator cancel gadgets" {
		t.Errorf("failed: unfinished %v, Try %q", p.Unfinished(), p.Try)
	}
	if p := (seen{gone: []v1alpha1.StorageVersionMigration{running}}).judge(); !p.Unfinished() {
		t.Error("running: it is finished")
	}
}
