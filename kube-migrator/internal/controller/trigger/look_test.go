// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"slices"
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

// watched returns a journal that has missed nothing since the returned position.
func watched() (*journal, position) {
	j := newJournal(func() {})
	j.serversListed(map[string]tenure{"api-1": {"p1", noon}}, 1)
	return j, j.here()
}

// lookOf returns a look that found one resource, which p1 writes.
func lookOf(origin migrate.Origin) (*observation, *resource) {
	r := &resource{names: []string{"gadgets.demo.example.com"}, view: agreement.Verdict{
		Resource: schema.GroupResource{Group: "demo.example.com", Resource: "gadgets"}, Origin: origin,
		Servers: []agreement.Server{{ID: "api-1", Process: "p1", Hash: "h1", Answered: true}},
		Traces:  []string{"endpointslice default/gadgets u generation 4"},
	}}
	return &observation{
		round:     &agreement.Round{Started: noon, Processes: []string{"p1"}},
		traces:    traces{left: []string{"endpointslice kubernetes u generation 2"}},
		resources: map[string]*resource{r.names[0]: r},
		collections: map[string]ledger.Collection{r.names[0]: {ResourceVersion: 70,
			Witness: ledger.Witness{UID: "w", ResourceVersion: 60}}},
	}, r
}

// defaults are the options by which a look is judged.
var defaults = Options{MinEvidence: migrate.Observed, SettleTime: migrate.DefaultSettleTime}

// Only an epoch that has lasted for the settle time of this installation has settled.
func TestAnEpochSettlesAfterTheConfiguredTime(t *testing.T) {
	j, since := watched()
	s, r := lookOf(migrate.Aggregated)
	r.view.Evidence, r.view.Epoch = migrate.Declared, &migrate.Epoch{Hash: "h1", Since: noon}
	for name, test := range map[string]struct {
		settle, lasted time.Duration
		want           bool
	}{
		"shorter than the default":            {time.Second, time.Second, true},
		"not yet":                             {2 * time.Second, time.Second, false},
		"longer than the default, which ends": {time.Hour, migrate.DefaultSettleTime, false},
	} {
		s.round.Ended = noon.Add(test.lasted)
		o := defaults
		o.SettleTime = test.settle
		if l := s.lookAt(r, nil, j, since, &o); l.Settled != test.want {
			t.Errorf("%s: settled %t, want %t", name, l.Settled, test.want)
		}
	}
}

func TestTheLedgerIsToldWhatALookFound(t *testing.T) {
	j, since := watched()
	server := ledger.Server{ID: "api-1", Process: "p1", Hash: "h1", Answered: true}
	cameBack := server
	cameBack.CameBack = true
	collection := ledger.Collection{ResourceVersion: 70, Witness: ledger.Witness{UID: "w", ResourceVersion: 60}}
	for name, test := range map[string]struct {
		origin migrate.Origin
		change func(*observation, *v1alpha1.StorageState)
		want   ledger.Look
	}{
		"a built-in resource is watched": {
			migrate.BuiltIn, func(*observation, *v1alpha1.StorageState) {},
			ledger.Look{Servers: []ledger.Server{server}, Traces: []string{"endpointslice kubernetes u generation 2"},
				Continuous: true, Revisions: true, Collection: collection},
		},
		"an aggregated resource is not, and has traces of its own": {
			migrate.Aggregated, func(*observation, *v1alpha1.StorageState) {},
			ledger.Look{Servers: []ledger.Server{server},
				Traces: []string{"endpointslice default/gadgets u generation 4"}, Collection: collection},
		},
		"a restored etcd": {
			migrate.BuiltIn, func(s *observation, _ *v1alpha1.StorageState) { s.restored = true },
			ledger.Look{Servers: []ledger.Server{server}, Traces: []string{"endpointslice kubernetes u generation 2"},
				Continuous: true, Revisions: true, Collection: collection, Restored: true},
		},
		"a process whose Lease had expired when the state was recorded": {
			migrate.BuiltIn, func(_ *observation, state *v1alpha1.StorageState) {
				state.Status.Traces = abandoned([]object{leaseOf("p1", noon.Add(-time.Hour)), leaseOf("p0", noon)})
			},
			ledger.Look{Servers: []ledger.Server{cameBack}, Traces: []string{"endpointslice kubernetes u generation 2"},
				Continuous: true, Revisions: true, Collection: collection},
		},
		"a collection that was not read": {
			migrate.BuiltIn, func(s *observation, _ *v1alpha1.StorageState) { s.collections = nil },
			ledger.Look{Servers: []ledger.Server{server}, Traces: []string{"endpointslice kubernetes u generation 2"},
				Continuous: true, Revisions: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := lookOf(test.origin)
			state := new(v1alpha1.StorageState)
			test.change(s, state)
			test.want.Started, test.want.Names = noon, map[string]string{}
			if diff := cmp.Diff(test.want, s.lookAt(r, state, j, since, &defaults)); diff != "" {
				t.Errorf("look (-want +got):\n%s", diff)
			}
		})
	}
}

// The watch of Leases shows no restart of releases before 1.35: between two processes there may have been others.
func TestAServerOfAnOldReleaseThatWasRestartedIsADoubt(t *testing.T) {
	const before, after = "p1 started 2026-01-01T12:00:00.000Z", "p1 started 2026-01-01T12:01:00.000Z"
	decide := func(recorded, now, release string) ledger.Decision {
		j, since := watched()
		s, r := lookOf(migrate.BuiltIn)
		r.view.Servers[0].Process = recorded
		first := ledger.First(s.lookAt(r, nil, j, since, &defaults)).State
		first.Persisted, first.After = []string{"h1"}, 1
		state := &v1alpha1.StorageState{Status: v1alpha1.StorageStateStatus{
			ServerStorageVersions: []v1alpha1.ServerEncodingVersion{{APIServerID: "api-1", HolderIdentity: recorded}}}}
		r.view.Servers[0].Process = now
		if s.round.Releases.All = []string{"v1.37.0"}; release != "" {
			s.round.Releases.All = []string{release}
			s.traces.left = []string{"endpointslice kubernetes u generation 4"}
		}
		return ledger.Looked(first, s.lookAt(r, state, j, since, &defaults))
	}
	for name, test := range map[string]struct {
		recorded, now string
		release       string // whose servers have left a trace
		doubt         bool
	}{
		"nothing happened":                   {before, before, "", false},
		"it was restarted":                   {before, after, "", true},
		"a recent release came in its place": {before, "p1", "", true},
		"an old release came":                {"p1", after, "", true},
		"a recent release, watched":          {"p1", "p1", "v1.37.0", false},
		"an old one that cannot be asked when it started, and left a trace": {"p1", "p1", "v1.32.4", true},
	} {
		if d := decide(test.recorded, test.now, test.release); (d.Doubt != "") != test.doubt {
			t.Errorf("%s: doubt %q", name, d.Doubt)
		}
	}
}

// A pod of an aggregated API server that came and went between two looks leaves only a new generation of its
// EndpointSlice.
func TestAnAggregatedProcessThatCameAndWentIsADoubt(t *testing.T) {
	j, since := watched()
	s, r := lookOf(migrate.Aggregated)
	first := ledger.First(s.lookAt(r, nil, j, since, &defaults)).State
	first.Persisted, first.After = []string{"h1"}, 1
	decide := func(traces []string) string {
		r.view.Traces = traces
		return ledger.Looked(first, s.lookAt(r, new(v1alpha1.StorageState), j, since, &defaults)).Doubt
	}
	if doubt := decide(r.view.Traces); doubt != "" {
		t.Errorf("nothing happened: doubt %q", doubt)
	}
	for name, traces := range map[string][]string{
		"the slice has changed twice":                 {"endpointslice default/gadgets u generation 6"},
		"the slice was created again":                 {"endpointslice default/gadgets v generation 4"},
		"the slices of the service could not be read": nil,
	} {
		if doubt := decide(traces); doubt == "" {
			t.Errorf("%s: no doubt", name)
		}
	}
}

func TestCollectionsAreReadWhenTheyAreDue(t *testing.T) {
	s, _ := lookOf(migrate.BuiltIn)
	s.resources, s.states = map[string]*resource{}, map[string]*v1alpha1.StorageState{}
	add := func(name string, origin migrate.Origin) *v1alpha1.StorageState {
		s.resources[name] = &resource{names: []string{name}, view: agreement.Verdict{Origin: origin}}
		state := new(v1alpha1.StorageState)
		state.Status.ResourceVersion, state.Status.PersistedStorageVersionHashes, state.Status.CurrentStorageVersionHash = "5", []string{"h1"}, "h1"
		s.states[name] = state
		return state
	}
	c := comparer{compared: map[string]string{}}
	var all []string
	for i := range 2*comparisonsPerLook + 3 {
		name := "r" + string(rune('A'+i))
		add(name, migrate.BuiltIn)
		c.compared[name] = s.servers()
		all = append(all, name)
	}
	var read []string
	for range 3 {
		due := c.due(s)
		if len(due) != comparisonsPerLook {
			t.Errorf("%d are due in a look, want %d: %v", len(due), comparisonsPerLook, due)
		}
		read = append(read, due...)
	}
	slices.Sort(read)
	if diff := cmp.Diff(all, slices.Compact(read)); diff != "" {
		t.Errorf("read within three looks (-want +got):\n%s", diff)
	}

	fresh := add("z-fresh", migrate.BuiltIn)
	fresh.Status.ResourceVersion = ""
	c.compared["z-fresh"] = s.servers()
	add("z-custom", migrate.Custom)
	add("z-aggregated", migrate.Aggregated)
	waiting := add("z-waiting", migrate.BuiltIn)
	waiting.Status.PersistedStorageVersionHashes = []string{"h0", "h1"}
	c.compared["z-waiting"] = s.servers()
	m := v1alpha1.StorageVersionMigration{Spec: v1alpha1.StorageVersionMigrationSpec{Generation: 2}}
	m.Labels = labels()
	m.Spec.Resource.Resource = "z-waiting"
	m.Status.CompletedGeneration, m.Status.Run.Generation, m.Status.StorageVersionHash, m.Status.Epoch = 2, 2,
		"h1", &v1alpha1.Epoch{}
	s.migrations = []v1alpha1.StorageVersionMigration{m}
	due := c.due(s)
	if got, want := due[len(due)-4:], []string{"z-aggregated", "z-custom", "z-fresh",
		"z-waiting"}; !slices.Equal(got, want) {
		t.Errorf("due are also %v, want %v", got, want)
	}
	s.round.Processes = []string{"p2"} // restarted
	if due := c.due(s); len(due) != len(s.resources) {
		t.Errorf("after a restart %d of %d are due", len(due), len(s.resources))
	}
}

func TestACollectionIsAPositionAndOneObject(t *testing.T) {
	got, err := parseCollection(
		[]byte(`{"metadata": {"resourceVersion": "1200"}, "items": [{"metadata": {"name": "a", "uid": "u", "resourceVersion": "900"}}, {"metadata": {"uid": "v"}}]}`),
	)
	want := ledger.Collection{ResourceVersion: 1200, Witness: ledger.Witness{UID: "u", ResourceVersion: 900}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := parseCollection([]byte(`{"metadata": {"resourceVersion": "7"}}`)); err != nil ||
		got != (ledger.Collection{ResourceVersion: 7}) {
		t.Errorf("an empty one is %+v, %v", got, err)
	}
	for _, raw := range []string{`{"metadata": {"resourceVersion": ""}}`, `{"metadata": {"resourceVersion": "0"}}`,
		`{"metadata": {"resourceVersion": "abc"}}`, `{}`, `[`} {
		if got, err := parseCollection([]byte(raw)); err == nil {
			t.Errorf("%s is %+v", raw, got)
		}
	}
}

func TestTheEtcdOfTheRecordsIsSeenGoingBackwards(t *testing.T) {
	states := func(version string) map[string]*v1alpha1.StorageState {
		s := new(v1alpha1.StorageState)
		s.Name, s.ResourceVersion = "widgets", version
		return map[string]*v1alpha1.StorageState{"widgets": s}
	}
	for name, test := range map[string]struct {
		version uint64
		states  map[string]*v1alpha1.StorageState
		want    bool
	}{
		"nothing moved":                          {100, states("90"), false},
		"a record was written":                   {110, states("105"), false},
		"a record is gone":                       {110, nil, false},
		"a record was deleted and created again": {110, states("108"), false},
		"the collection is older":                {99, states("90"), true},
		"a record is older than it was":          {1_000_000_100, states("89"), true},
		"the collection's is not known":          {0, states("90"), false},
	} {
		m := new(mainEtcd)
		m.next(m.now(), 100, states("90"))
		if got := m.next(m.now(), test.version, test.states); got != test.want {
			t.Errorf("%s: restored %v, want %v", name, got, test.want)
		}
	}
}

// A look lists StorageStates while the trigger records what a changed CRD tells servers to write. The write may be
// answered before the list.
func TestAWriteDuringAListIsNotTakenForARestoredEtcd(t *testing.T) {
	state := func(version string) *v1alpha1.StorageState {
		return &v1alpha1.StorageState{ObjectMeta: metav1.ObjectMeta{Name: "widgets", ResourceVersion: version}}
	}
	list := func(version string) map[string]*v1alpha1.StorageState {
		return map[string]*v1alpha1.StorageState{"widgets": state(version)}
	}
	m := new(mainEtcd)
	m.next(m.now(), 100, list("90"))
	sent := m.now()
	m.saw(state("105"))
	if m.next(sent, 101, list("90")) {
		t.Error("a list that was read before a write is taken for a restored etcd")
	}
	if sent = m.now(); !m.next(sent, 106, list("90")) {
		t.Error("a list that was read after a write, and does not have it, is not taken for a restored etcd")
	}
}
