// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

var (
	noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	// full sets every field that the ledger can record.
	full = ledger.State{
		Persisted: []string{ledger.Unknown, "h1", "h2"}, Current: "h2", Heartbeat: noon, After: 7,
		Traces:     []string{"t1", "t2"},
		Collection: ledger.Collection{ResourceVersion: 99, Witness: ledger.Witness{UID: "w", ResourceVersion: 98}},
		Epoch:      &ledger.EpochID{Hash: "h2", Processes: []string{"p1", "p2"}, UID: "u", Generation: 4},
		Servers: []ledger.Server{
			{ID: "api-1", Process: "p1", Hash: "h2", Answered: true},
			{ID: "api-2", Process: "p2", Answered: true}, {ID: "192.0.2.3"},
		},
		CRD: &ledger.CRD{UID: "u", Generation: 4, Hash: "h2"}, OnlyDecodable: true,
		Proven: ledger.Proven{Hash: "h1", UpTo: 97},
	}
	view = agreement.Verdict{
		Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}, Evidence: migrate.Observed,
		Version: "demo.example.com/v2",
		Servers: []agreement.Server{{ID: "api-1", Hash: "h2", Version: "demo.example.com/v2"}},
		CRD:     &agreement.CRD{Hashes: map[string]string{"v1": "h1"}},
		Epoch: &migrate.Epoch{Hash: "h2", Servers: []string{"p1", "p2"}, CRDUID: "u", CRDGeneration: 4,
			Since: noon, Evidence: migrate.Observed},
	}
)

func TestAStorageStateKeepsEverythingThatTheLedgerRecords(t *testing.T) {
	none := new(v1alpha1.StorageStateStatus)
	for name, s := range map[string]ledger.State{
		"everything": full,
		"a beginning": {
			Persisted: []string{ledger.Unknown}, Current: ledger.Unknown, Heartbeat: noon,
			After: 1, Traces: []string{"t"},
			Servers: []ledger.Server{{ID: "api-1", Process: "p1"}},
		},
	} {
		written := status(none, s, &view, "", noon)
		if diff := cmp.Diff(s, recorded(&written)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		without := status(&written, s, nil, "", noon)
		if diff := cmp.Diff(s, recorded(&without)); diff != "" {
			t.Errorf("%s, without a look (-want +got):\n%s", name, diff)
		}
	}
}

// What is proven follows every look, and so does the time of the look: neither alone is a reason to write a record.
func TestWhatOnlyFollowsLooksIsNoChange(t *testing.T) {
	before := status(new(v1alpha1.StorageStateStatus), full, &view, "", noon)
	for name, test := range map[string]struct {
		change func(s *ledger.State)
		same   bool
	}{
		"a later look":       {func(s *ledger.State) { s.Heartbeat = noon.Add(time.Hour) }, true},
		"more is proven":     {func(s *ledger.State) { s.Proven.UpTo, s.Collection.ResourceVersion = 98, 100 }, true},
		"of another version": {func(s *ledger.State) { s.Proven.Hash = "h2" }, false},
		"nothing is proven":  {func(s *ledger.State) { s.Proven = ledger.Proven{} }, false},
	} {
		s := full
		test.change(&s)
		if next := status(&before, s, &view, "", noon); sameButHeartbeat(before, next) != test.same {
			t.Errorf("%s: same: %t", name, !test.same)
		}
	}
}

func TestAStorageStateTellsPeopleVersions(t *testing.T) {
	s := status(new(v1alpha1.StorageStateStatus), full, &view, "", noon)
	if diff := cmp.Diff([]string{ledger.Unknown, "v1", "v2"}, s.PersistedVersions); diff != "" {
		t.Errorf("persistedVersions (-want +got):\n%s", diff)
	}
	if s.CurrentVersion != "v2" || s.AgreedEncodingVersion != "v2" || s.Evidence != "Observed" ||
		s.ServerStorageVersions[0].EncodingVersion != "v2" {
		t.Errorf("status is %+v", s)
	}
	// A version that no server shows any more keeps its name.
	later := view
	later.CRD = nil
	if s := status(&s, full, &later, "", noon); s.PersistedVersions[1] != "v1" {
		t.Errorf("persistedVersions are %v", s.PersistedVersions)
	}
}

// A process of an aggregated API server that came and went between two looks interrupts an epoch, although the servers
// are the same as before.
func TestTheStartOfAnEpochIsKeptWhileNothingHappened(t *testing.T) {
	before := &v1alpha1.StorageStateStatus{Traces: []string{"storageversion u/1"},
		Epoch: &v1alpha1.Epoch{Servers: []string{"p1"}, Since: metav1.NewTime(noon)}}
	later := noon.Add(time.Minute)
	for name, test := range map[string]struct {
		origin migrate.Origin
		traces []string
		want   time.Time
	}{
		"nothing happened":               {migrate.Aggregated, []string{"storageversion u/1"}, noon},
		"the StorageVersion has changed": {migrate.Aggregated, []string{"storageversion u/2"}, later},
		"a built-in resource":            {migrate.BuiltIn, nil, noon},
	} {
		v := &agreement.Verdict{Origin: test.origin, Traces: test.traces,
			Epoch: &migrate.Epoch{Servers: []string{"p1"}, Since: later}}
		if since := sinceOf(before, v); !since.Equal(&metav1.Time{Time: test.want}) {
			t.Errorf("%s: since %s, want %s", name, since, test.want)
		}
	}
}

func TestConditionsSayWhatIsKnown(t *testing.T) {
	disagree, silent, sampled := view, view, view
	sampled.Evidence, sampled.Why = migrate.Sampled,
		"API servers older than 1.35 do not show that they were restarted (v1.33.13)"
	disagree.Epoch, disagree.Disagree, disagree.Why = nil, true, "api-1 writes v1, api-2 writes v2"
	silent.Epoch, silent.Why = nil, "api-2 does not answer"
	lost := full
	lost.Epoch = nil
	divided := lost
	divided.Servers = []ledger.Server{{ID: "api-1", Process: "p1", Hash: "h1"}}
	proven := full
	proven.Persisted, proven.OnlyDecodable = []string{"h2"}, false
	assumed := proven
	assumed.OnlyDecodable = true
	if got := conditions(nil, assumed, &view, "", metav1.NewTime(noon))[1]; got.Status != metav1.ConditionTrue ||
		got.Reason != "OnlyDecodable" {
		t.Errorf("what is not proven is told as %+v", got)
	}
	for name, c := range map[string]struct {
		state           ledger.State
		view            agreement.Verdict
		doubt           string
		equal, migrated metav1.ConditionStatus
		says            string
	}{
		"agreement": {full, view, "", metav1.ConditionTrue, metav1.ConditionFalse,
			"All API servers encode the resource in one version (Observed)"},
		"proof": {proven, view, "", metav1.ConditionTrue, metav1.ConditionTrue,
			"All API servers encode the resource in one version (Observed)"},
		"disagreement": {lost, disagree, "", metav1.ConditionFalse, metav1.ConditionFalse, disagree.Why},
		"silence":      {lost, silent, "because", metav1.ConditionUnknown, metav1.ConditionFalse, silent.Why},
		"weak evidence": {lost, sampled, "because", metav1.ConditionUnknown, metav1.ConditionFalse,
			"All API servers seem to encode the resource in one version, " +
				"but the evidence is only Sampled, and the installation requires more: API servers older than 1.35 " +
				"do not show that they were restarted (v1.33.13)"},
		"weak evidence against a server that shows another version": {divided, sampled, "because",
			metav1.ConditionUnknown, metav1.ConditionFalse, sampled.Why},
	} {
		got := conditions(nil, c.state, &c.view, c.doubt, metav1.NewTime(noon))
		if got[0].Status != c.equal || got[0].Message != c.says || got[1].Status != c.migrated {
			t.Errorf("%s: %+v", name, got)
		}
		if c.doubt != "" && got[1].Message != "The stored versions are unknown: "+c.doubt {
			t.Errorf("%s: %q does not say why", name, got[1].Message)
		}
	}
}

func TestOnlyOurOwnMigrationIsAskedWith(t *testing.T) {
	migration := func(name, group, resource string, ours bool) v1alpha1.StorageVersionMigration {
		m := v1alpha1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Spec.Resource.Group, m.Spec.Resource.Resource = group, resource
		if ours {
			m.Labels = labels()
		}
		return m
	}
	all := []v1alpha1.StorageVersionMigration{
		migration("a-users", "events.k8s.io", "events", false),
		migration("another", "demo.example.com", "widgets", true), migration("ours", "", "events", true),
	}
	if m := own(all, []string{"events.events.k8s.io", "events"}); m == nil || m.Name != "ours" {
		t.Errorf("ours is %+v", m)
	}
	if m := own(all[:2], []string{"events.events.k8s.io", "events"}); m != nil {
		t.Errorf("a user's is taken for ours: %+v", m)
	}
}

func TestASuccessIsAProofOfItsOwnRunOnly(t *testing.T) {
	m := &v1alpha1.StorageVersionMigration{Spec: v1alpha1.StorageVersionMigrationSpec{Generation: 3}}
	m.Status.CompletedGeneration, m.Status.Run.Generation, m.Status.StorageVersionHash = 2, 2, "h2"
	m.Status.Epoch = &v1alpha1.Epoch{Servers: []string{"p1"}}
	m.Status.Run.StartResourceVersion = "41"
	if got := migrationOf(m); got.Proof == nil || got.Proof.Start != 41 || got.Proof.Epoch.Hash != "h2" ||
		got.Generation != 3 || got.Started {
		t.Errorf("migration is %+v", got)
	}
	m.Status.Run.Generation = 3 // the epoch is that of the next run
	if got := migrationOf(m); got.Proof != nil || !got.Started || got.Start != 41 {
		t.Errorf("the next run's epoch is taken for a proof, or it has not started: %+v", got)
	}
}

func TestTheMigrationsOfAResourceAreOursAndAllOthers(t *testing.T) {
	events := func(group string, change func(*v1alpha1.StorageVersionMigration)) v1alpha1.StorageVersionMigration {
		m := v1alpha1.StorageVersionMigration{Spec: v1alpha1.StorageVersionMigrationSpec{Generation: 1,
			Resource: v1alpha1.GroupVersionResource{Group: group, Resource: "events"}}}
		change(&m)
		return m
	}
	all := []v1alpha1.StorageVersionMigration{
		events("", func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }),
		events("", func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled }),
		events("another.example.com", func(*v1alpha1.StorageVersionMigration) {}),
		events("events.k8s.io", func(m *v1alpha1.StorageVersionMigration) {
			m.Labels, m.Spec.Generation, m.Spec.State = labels(), 4, v1alpha1.StatePaused
		}),
		events("events.k8s.io", func(
			m *v1alpha1.StorageVersionMigration,
		) {
			m.DeletionTimestamp = &metav1.Time{Time: noon}
		}),
		events("events.k8s.io", func(m *v1alpha1.StorageVersionMigration) { m.Status.State = v1alpha1.PhaseFailed }),
	}
	ours, others := migrationsOf(all, []string{"events.events.k8s.io", "events"})
	if diff := cmp.Diff(ledger.Migration{Generation: 4}, ours); diff != "" {
		t.Errorf("ours (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]ledger.Migration{{Generation: 1, Held: true}, {Generation: 1, Held: true},
		{Generation: 1, Failed: true}}, others); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
	all[3].Spec.State = v1alpha1.StateCancelled
	if ours, _ := migrationsOf(all, []string{"events.events.k8s.io"}); !ours.Held {
		t.Errorf("ours is cancelled, and is %+v", ours)
	}
	if ours, others := migrationsOf(nil, []string{"events"}); ours != (ledger.Migration{}) || others != nil {
		t.Errorf("none are %+v, %+v", ours, others)
	}
}

func TestAStorageStateTellsHowOftenItIsRenewedAndWhetherTheResourceIsLeftOut(t *testing.T) {
	events := &resource{names: []string{"events", "events.events.k8s.io"}}
	for name, test := range map[string]struct {
		options  Options
		seconds  int64
		excluded bool
	}{
		"the defaults":          {Options{Period: DefaultPeriod}, 600, false},
		"another period":        {Options{Period: 90 * time.Second}, 90, false},
		"a part of a second":    {Options{Period: 1500 * time.Millisecond}, 2, false},
		"excluded by an alias":  {Options{Period: DefaultPeriod, Exclude: []string{"*.events.k8s.io"}}, 600, true},
		"included by an alias":  {Options{Period: DefaultPeriod, Include: []string{"*.events.k8s.io"}}, 600, false},
		"not among the include": {Options{Period: DefaultPeriod, Include: []string{"secrets"}}, 600, true},
	} {
		if seconds, excluded := test.options.promise(events); seconds != test.seconds || excluded != test.excluded {
			t.Errorf("%s: %d s, excluded %t, want %d s, %t", name, seconds, excluded, test.seconds, test.excluded)
		}
	}
	before := &v1alpha1.StorageStateStatus{HeartbeatPeriodSeconds: 90, Excluded: true}
	if after := status(before, full, nil, "", noon); after.HeartbeatPeriodSeconds != 90 || !after.Excluded {
		t.Errorf("without a look: %d s, excluded %t, want what was recorded",
			after.HeartbeatPeriodSeconds, after.Excluded)
	}
}
