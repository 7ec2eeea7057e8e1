// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// resourceAt is a resource that discovery shows with a hash.
func resourceAt(name, hash string) inventory.Resource {
	return inventory.Resource{GroupResource: schema.ParseGroupResource(name), StorageVersionHash: hash,
		StorageVersion: schema.GroupVersion{Version: "v2"}}
}

// migrationOf is a migration of generation 1 with one true condition.
func migrationOf(
	resource string,
	phase v1alpha1.Phase,
	hash string,
	edits ...func(*v1alpha1.StorageVersionMigration),
) v1alpha1.StorageVersionMigration {
	gr := schema.ParseGroupResource(resource)
	m := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: resource},
		Spec: v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Group: gr.Group,
			Resource: gr.Resource}, Generation: 1, State: v1alpha1.StateActive},
		Status: v1alpha1.StorageVersionMigrationStatus{
			State: phase, StorageVersionHash: hash, StorageVersion: "v1", Run: v1alpha1.Run{Generation: 1},
			Epoch: &v1alpha1.Epoch{Servers: []string{"api-1"}, Evidence: "Observed", CRDUID: "u", CRDGeneration: 7},
		},
	}
	is := v1alpha1.ConditionReconciling
	switch phase {
	case v1alpha1.PhaseSucceeded:
		is, m.Status.CompletedGeneration = v1alpha1.ConditionSucceeded, 1
	case v1alpha1.PhaseFailed:
		is = v1alpha1.ConditionFailed
	case v1alpha1.PhasePending, v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning, v1alpha1.PhasePaused:
	}
	m.Status.Conditions = []v1alpha1.Condition{{Type: is, Status: metav1.ConditionTrue, Message: "So it is"}}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func raised(m *v1alpha1.StorageVersionMigration)   { m.Spec.Generation = 2 }
func isPaused(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }
func named(name string, age time.Duration) func(*v1alpha1.StorageVersionMigration) {
	return func(m *v1alpha1.StorageVersionMigration) {
		m.Name, m.CreationTimestamp = name, metav1.NewTime(time.Unix(1_000_000, 0).Add(-age))
	}
}

var judged = time.Unix(2_000_000, 0)

// stateOf is a StorageState that was renewed a minute ago by all API servers.
func stateOf(current string, persisted ...string) *v1alpha1.StorageStateStatus {
	return &v1alpha1.StorageStateStatus{
		CurrentStorageVersionHash: current, PersistedStorageVersionHashes: persisted,
		LastHeartbeatTime: metav1.NewTime(judged.Add(-time.Minute)),
	}
}

// edited is a StorageState after edits.
func edited(s *v1alpha1.StorageStateStatus, edit func(*v1alpha1.StorageStateStatus)) *v1alpha1.StorageStateStatus {
	edit(s)
	return s
}

// both runs what check and progress do with one set of facts, and returns what both say.
func both(t *testing.T, k records.Known, about records.Scope) (report upgrade.Report, p render.Progress) {
	t.Helper()
	facts, s, err := k.Choose(about)
	if err != nil {
		t.Fatal(err)
	}
	q := upgrade.Question{Program: "kube-migrator", Now: judged, Installed: true}
	var asCheck, asProgress strings.Builder
	if err := render.Check(&asCheck, render.JSON, q.Report(facts, s)); err != nil {
		t.Fatal(err)
	}
	if err := progressOf(q, facts, s).Write(&asProgress, render.JSON, render.ProgressStyle{}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(asCheck.String()), &report); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(asProgress.String()), &p); err != nil {
		t.Fatal(err)
	}
	return report, p
}

// knownOf is a cluster with these resources, and states by their names.
func knownOf(resources []inventory.Resource, states map[string]*v1alpha1.StorageStateStatus,
	migrations ...v1alpha1.StorageVersionMigration) records.Known {
	k := records.Known{Inventory: &inventory.Inventory{Resources: resources}, Migrations: migrations,
		States: map[schema.GroupResource]*v1alpha1.StorageState{}}
	for name, state := range states {
		k.States[schema.ParseGroupResource(name)] = &v1alpha1.StorageState{Status: *state}
	}
	return k
}

func TestCheckAndProgressJudgeTheSameFactsAlike(t *testing.T) {
	const done, failed, running = v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhaseRunning
	pods, secrets := resourceAt("pods", "now"), resourceAt("secrets", "now")
	custom := func(generation int64, stored ...string) inventory.Resource {
		r := pods
		r.CRD = &inventory.CRD{UID: "u", Generation: generation, StorageVersion: "v2", StoredVersions: stored}
		return r
	}
	computed := inventory.Resource{GroupResource: schema.GroupResource{Resource: "bindings"},
		Problem: &inventory.Problem{Reason: inventory.NotPersisted}}
	shared := pods
	shared.Aliases = []schema.GroupVersionResource{{Group: "other", Version: "v1", Resource: "pods"}}
	type (
		states    = map[string]*v1alpha1.StorageStateStatus
		resources = []inventory.Resource
	)
	current := states{"pods": stateOf("now", "now")}
	stale := states{"pods": edited(stateOf("now", "now"),
		func(s *v1alpha1.StorageStateStatus) { s.LastHeartbeatTime = metav1.NewTime(judged.Add(-time.Hour)) })}
	shows := func(hash string) states {
		return states{"pods": edited(stateOf("now", "now"), func(s *v1alpha1.StorageStateStatus) {
			s.ServerStorageVersions = []v1alpha1.ServerEncodingVersion{{APIServerID: "api-1",
				EncodingVersionHash: "now"}, {APIServerID: "api-2", EncodingVersionHash: hash}}
		})}
	}
	recorded := states{"pods": edited(stateOf("now", "now"), func(s *v1alpha1.StorageStateStatus) {
		s.Definition = &v1alpha1.RecordedCRD{UID: "u", Generation: 7}
	})}
	excluded := states{"pods": stateOf("now", "now"),
		"secrets": edited(stateOf("now", "Unknown"), func(s *v1alpha1.StorageStateStatus) { s.Excluded = true })}
	for name, test := range map[string]struct {
		known records.Known
		about records.Scope
		want  upgrade.Verdict
		// exit is that of progress; check's is that of the verdict.
		exit int
		says string
		// excluded is what both name as excluded.
		excluded []string
	}{
		"a proof": {knownOf(resources{pods, computed}, current,
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Safe, exit.Done,
			"everything is stored as v2", nil},
		"a proof whose migration is deleted": {knownOf(resources{pods}, current), records.Scope{}, upgrade.Safe,
			exit.Done, "everything is stored as v2", nil},
		"a proof for another name of shared storage": {knownOf(resources{shared},
			states{"pods.other": stateOf("now", "now")}), records.Scope{}, upgrade.Safe, exit.Done,
			"everything is stored as v2", nil},
		"Unknown": {knownOf(resources{pods},
			states{"pods": stateOf("now", "Unknown", "now")}, migrationOf("pods", done, "now")), records.Scope{},
			upgrade.Undetermined, exit.Undetermined, "versions that no one knows", nil},
		"Unknown while a migration runs": {knownOf(resources{pods},
			states{"pods": stateOf("now", "Unknown", "now")}, migrationOf("pods", running, "now")), records.Scope{},
			upgrade.Undetermined, exit.Undetermined, "not finished: So it is", nil},
		"a heartbeat that is late": {knownOf(resources{pods}, stale,
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Undetermined, exit.Undetermined,
			"last renewed 1h0m ago", nil},
		"a late heartbeat without a migration": {knownOf(resources{pods}, stale), records.Scope{}, upgrade.Undetermined,
			exit.Undetermined, "last renewed 1h0m ago", nil},
		"a server that shows an unrecorded version": {knownOf(resources{pods}, shows("then"),
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Unsafe, exit.WorkLeft,
			"may be stored as then", nil},
		"servers that show the recorded version": {knownOf(resources{pods}, shows("now"),
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Safe, exit.Done,
			"everything is stored as v2", nil},
		"discovery that shows an unrecorded version": {knownOf(resources{pods}, states{"pods": stateOf("then", "then")},
			migrationOf("pods", done, "then")), records.Scope{}, upgrade.Unsafe, exit.WorkLeft,
			"may be stored as then", nil},
		"an old version": {knownOf(resources{pods}, states{"pods": stateOf("now", "then", "now")},
			migrationOf("pods", running, "now")), records.Scope{}, upgrade.Unsafe, exit.WorkLeft,
			"may be stored as then", nil},
		"servers that disagree": {knownOf(resources{pods}, states{"pods": edited(stateOf("Unknown", "then", "now"), func(s *v1alpha1.StorageStateStatus) {
			s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual,
				Status:  metav1.ConditionFalse,
				Message: "api-1 encodes v1"}}
		})}), records.Scope{}, upgrade.Unsafe, exit.WorkLeft, "the API servers disagree: api-1 encodes v1", nil},
		"no StorageState": {knownOf(resources{pods}, nil,
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Undetermined, exit.Undetermined,
			"no one has recorded what is stored", nil},
		"a StorageState that is empty": {knownOf(resources{pods},
			states{"pods": stateOf("now")}), records.Scope{}, upgrade.Undetermined, exit.Undetermined,
			"records no version yet", nil},
		"storedVersions that claim more than was proven": {knownOf(resources{custom(7, "v1", "v2")},
			recorded), records.Scope{}, upgrade.Safe, exit.Done, "everything is stored as v2", nil},
		"a CRD that has changed since": {knownOf(resources{custom(8, "v2")}, recorded,
			migrationOf("pods", done, "now")), records.Scope{}, upgrade.Undetermined, exit.Undetermined,
			"has changed since the StorageState", nil},
		"no version in discovery": {knownOf(resources{resourceAt("pods", "")},
			current), records.Scope{}, upgrade.Undetermined, exit.Undetermined, "does not show in which version", nil},
		"a migration that failed": {knownOf(resources{pods},
			states{"pods": stateOf("now", "then", "now")}, migrationOf("pods", failed, "now")),
			records.Scope{}, upgrade.Unsafe,
			exit.Failures, "its migration failed: So it is", nil},
		"a migration that failed, with permissions that do not cover it": {knownOf(resources{pods},
			states{"pods": edited(stateOf("now", "then", "now"), func(s *v1alpha1.StorageStateStatus) {
				s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionPermitted, Status: metav1.ConditionFalse}}
			})}, migrationOf("pods", failed, "now")),
			records.Scope{}, upgrade.Unsafe, exit.Failures, "the worker's permissions do not cover it", nil},
		"a failure after a proof": {knownOf(resources{pods}, current,
			migrationOf("pods", failed, "now")), records.Scope{}, upgrade.Safe, exit.Failures,
			"everything is stored as v2", nil},
		"a paused migration": {knownOf(resources{pods},
			states{"pods": stateOf("now", "Unknown")}, migrationOf("pods", v1alpha1.PhasePaused, "now", isPaused)),
			records.Scope{}, upgrade.Undetermined, exit.Undetermined, "its migration is paused", nil},
		"a migration that has not begun": {knownOf(resources{pods},
			states{"pods": stateOf("now", "Unknown")}, migrationOf("pods", done, "now", raised)), records.Scope{},
			upgrade.Undetermined, exit.Undetermined, "its migration has not begun", nil},
		"a resource that is gone": {knownOf(nil, nil,
			migrationOf("gadgets", done, "now")), records.Scope{}, upgrade.Undetermined, exit.Undetermined,
			"does not serve it", nil},
		"a resource that the installation excludes": {knownOf(resources{pods, secrets}, excluded),
			records.Scope{}, upgrade.Safe, exit.Done, "the installation excludes them: secrets.", []string{"secrets"}},
		"an excluded resource that is named": {knownOf(resources{pods, secrets}, excluded,
			migrationOf("secrets", done, "now", named("mine", 0))), records.Scope{Names: []string{"mine"}},
			upgrade.Undetermined, exit.Undetermined, "versions that no one knows", nil},
		"a resource that only its StorageState knows, and that is named": {knownOf(nil,
			states{"relics.example.com": stateOf("now", "now")}), records.Scope{Names: []string{"relics.example.com"}},
			upgrade.Undetermined, exit.Undetermined, "the API server does not serve it", nil},
		"an excluded resource that is included": {knownOf(resources{pods, secrets}, excluded),
			records.Scope{Include: []string{"s*"}}, upgrade.Undetermined, exit.Undetermined,
			"versions that no one knows", nil},
		"a resource that the user excludes": {knownOf(resources{pods, secrets},
			states{"pods": stateOf("now", "now")}), records.Scope{Exclude: []string{"sec*"}}, upgrade.Safe, exit.Done,
			"everything is stored as v2", nil},
		"a gone resource that the user excludes": {knownOf(resources{pods}, current,
			migrationOf("gadgets", done, "now")), records.Scope{Exclude: []string{"gad*"}}, upgrade.Safe, exit.Done,
			"everything is stored as v2", nil},
		"an excluded resource that the user excludes as well": {knownOf(resources{pods, secrets}, excluded),
			records.Scope{Exclude: []string{"secrets"}}, upgrade.Safe, exit.Done, "API servers write.", nil},
		"a part that cannot be read": {records.Known{
			Inventory: &inventory.Inventory{Failures: []inventory.Failure{{What: "v1"}}},
		},
			records.Scope{}, upgrade.Undetermined, exit.Undetermined, "a part of the cluster could not be read", nil},
		"nothing": {knownOf(nil, nil), records.Scope{}, upgrade.Safe, exit.Done,
			"An upgrade is safe now", nil},
		"unsafe before undetermined": {knownOf(resources{pods, secrets},
			states{"pods": stateOf("now", "Unknown"), "secrets": stateOf("now", "then", "now")}), records.Scope{},
			upgrade.Unsafe, exit.WorkLeft, "An upgrade is not safe now: secrets.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			report, p := both(t, test.known, test.about)
			type said struct {
				Verdict upgrade.Verdict
				Next    string
			}
			verdicts := [2]map[string]said{{}, {}}
			sentences := []string{report.Sentence}
			for _, f := range report.Findings {
				verdicts[0][f.Resource], sentences = said{f.Verdict, f.Next}, append(sentences, f.Why)
			}
			for _, r := range p.Resources {
				verdicts[1][r.Resource] = said{r.Verdict, r.Try}
				if r.Verdict == upgrade.Safe { // check has nothing to try, progress shows a run that failed
					verdicts[1][r.Resource] = said{Verdict: r.Verdict}
				}
			}
			if diff := cmp.Diff(verdicts[0], verdicts[1]); diff != "" {
				t.Errorf("verdicts (-check +progress):\n%s", diff)
			}
			if report.Verdict != test.want || p.Verdict != test.want ||
				!strings.HasPrefix(p.Sentence, report.Sentence) {
				t.Errorf("check: %s: %s\nprogress: %s: %s\nwant %s", report.Verdict, report.Sentence,
					p.Verdict, p.Sentence, test.want)
			}
			if !slices.ContainsFunc(sentences, func(s string) bool { return strings.Contains(s, test.says) }) {
				t.Errorf("said %q, want …%s…", sentences, test.says)
			}
			if got := progressExit(p); got != test.exit {
				t.Errorf("exit code %d of progress, want %d", got, test.exit)
			}
			if diff := cmp.Diff([2][]string{test.excluded, test.excluded},
				[2][]string{report.Excluded, p.Excluded}); diff != "" {
				t.Errorf("excluded, of check and of progress (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASentenceNamesAtMostFive(t *testing.T) {
	k := knownOf(nil, nil)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		k.Inventory.Resources = append(k.Inventory.Resources, resourceAt(name, "now"))
	}
	_, p := both(t, k, records.Scope{})
	if want := "a, b, c, d, e and 2 more."; !strings.HasSuffix(p.Sentence, want) || len(p.NotCovered) != 7 {
		t.Errorf("got %q and %d not covered, want …%s and 7", p.Sentence, len(p.NotCovered), want)
	}
}

func TestEveryVerdictHasItsExitCode(t *testing.T) {
	for verdict, want := range map[upgrade.Verdict]int{upgrade.Safe: 0, upgrade.Unsafe: 2, upgrade.Undetermined: 3} {
		if got := exitOf(verdict); got != want {
			t.Errorf("%s: exit code %d, want %d", verdict, got, want)
		}
	}
}

func TestATableOfProgressListsWhatHasAMigrationOrIsNamed(t *testing.T) {
	k := knownOf([]inventory.Resource{resourceAt("pods", "now"), resourceAt("secrets", "now"),
		resourceAt("nodes", "now")},
		map[string]*v1alpha1.StorageStateStatus{"pods": stateOf("now", "now")},
		migrationOf("secrets", v1alpha1.PhaseRunning, "now"))
	for name, test := range map[string]struct {
		about records.Scope
		want  []string
	}{
		"everything":     {records.Scope{}, []string{"secrets"}},
		"what is chosen": {records.Scope{Include: []string{"pods", "secrets"}}, []string{"pods", "secrets"}},
	} {
		facts, about, err := k.Choose(test.about)
		if err != nil {
			t.Fatal(err)
		}
		var listed []string
		for _, r := range progressOf(upgrade.Question{Now: judged, Installed: true}, facts, about).Resources {
			if !r.Unlisted {
				listed = append(listed, r.Resource)
			}
		}
		if diff := cmp.Diff(test.want, listed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheRunBeforeIsNotCountedForOneThatWaits(t *testing.T) {
	m := migrationOf("pods", v1alpha1.PhasePending, "now", raised)
	m.Status.Progress = v1alpha1.Progress{Total: 2, Done: 2, TotalIsExact: true}
	_, p := both(t, knownOf([]inventory.Resource{resourceAt("pods", "now")}, nil, m), records.Scope{})
	if r := p.Resources[0]; r.Done != 0 || r.Total != 0 || r.StorageVersion != "" || p.Total.Done != 0 {
		t.Errorf("got %+v", r)
	}
}

// The runbook has a section for each reason with which a run fails, and for no other.
func TestAFailureLeadsToItsSectionOfTheRunbook(t *testing.T) {
	reason := func(text string) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.Status.Conditions[0].Reason = text }
	}
	const page = "https://github.com/kube-migrator/kube-migrator/blob/main/docs/runbook.md"
	for name, tt := range map[string]struct {
		phase  v1alpha1.Phase
		reason string
		want   string
	}{
		"it failed":                         {v1alpha1.PhaseFailed, "ObjectsFailed", page + "#objectsfailed"},
		"it failed for an unknown reason":   {v1alpha1.PhaseFailed, "Whatever", ""},
		"it is running":                     {v1alpha1.PhaseRunning, "ObjectsFailed", ""},
		"it succeeded, whatever the reason": {v1alpha1.PhaseSucceeded, "ObjectsFailed", ""},
	} {
		m := migrationOf("pods", tt.phase, "now", reason(tt.reason))
		_, p := both(t, knownOf([]inventory.Resource{resourceAt("pods", "now")}, nil, m), records.Scope{})
		var text strings.Builder
		if err := p.Write(&text, render.Table, render.ProgressStyle{}); err != nil {
			t.Fatal(err)
		}
		if got := p.Resources[0].Runbook; got != tt.want || strings.Contains(text.String(), "  See "+page) != (tt.want != "") {
			t.Errorf("%s: %q, want %q, in\n%s", name, got, tt.want, text.String())
		}
	}
}

func TestAMigrationOfWhatIsGoneThatFailedIsFinished(t *testing.T) {
	failed, running := migrationOf("gadgets", v1alpha1.PhaseFailed, ""),
		migrationOf("gadgets", v1alpha1.PhaseRunning, "")
	if _, p := both(t, knownOf(nil, nil, failed), records.Scope{}); p.Unfinished() || len(p.Resources) != 1 ||
		p.Resources[0].Run != upgrade.HasFailed {
		t.Errorf("failed: unfinished %v: %+v", p.Unfinished(), p.Resources)
	}
	if _, p := both(t, knownOf(nil, nil, running), records.Scope{}); !p.Unfinished() ||
		p.Resources[0].Try != "kube-migrator cancel gadgets" {
		t.Errorf("running: it is finished: %+v", p.Resources)
	}
}
