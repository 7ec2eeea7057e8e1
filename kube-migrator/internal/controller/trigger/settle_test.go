// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// memory holds one StorageState and one migration, as an API server would, and notes every write.
type memory struct {
	client.Client
	state     v1alpha1.StorageState
	migration v1alpha1.StorageVersionMigration
	version   int
	written   [][]string
	refusal   error // of every write
}

func (m *memory) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	m.state.DeepCopyInto(o.(*v1alpha1.StorageState))
	return nil
}

func (m *memory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *v1alpha1.StorageStateList:
		l.Items, l.ResourceVersion = []v1alpha1.StorageState{*m.state.DeepCopy()}, strconv.Itoa(m.version)
	case *v1alpha1.StorageVersionMigrationList:
		l.Items = []v1alpha1.StorageVersionMigration{*m.migration.DeepCopy()}
	}
	return nil
}

func (m *memory) Status() client.SubResourceWriter { return memoryStatus{memory: m} }

type memoryStatus struct {
	client.SubResourceWriter
	memory *memory
}

func (s memoryStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	m := s.memory
	if m.refusal != nil {
		return m.refusal
	}
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
	o.(*v1alpha1.StorageState).DeepCopyInto(&m.state)
	m.written = append(m.written, m.state.Status.PersistedStorageVersionHashes)
	return nil
}

const settled = "widgets.demo.example.com"

func hashOf(version string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: "demo.example.com", Version: version, Kind: "Widget"})
}

// settling returns a trigger that has recorded a look at widgets: v1 and v2 may be stored, servers write v2, and
// generation 2 of a user's migration has just proven v2.
func settling(t *testing.T, answer http.HandlerFunc) (*trigger, *memory) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	client, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{version: 50}
	m.state.Name, m.state.UID, m.state.ResourceVersion = settled, "u", "50"
	m.state.Status = status(&m.state.Status, ledger.State{
		Persisted: []string{hashOf("v1"), hashOf("v2")}, Current: hashOf("v2"), Heartbeat: noon, After: 29,
		Epoch:      &ledger.EpochID{Hash: hashOf("v2"), Processes: []string{"p1"}},
		Collection: ledger.Collection{ResourceVersion: 40},
	}, nil, "", noon)
	m.migration.Spec = v1alpha1.StorageVersionMigrationSpec{Generation: 2,
		Resource: v1alpha1.GroupVersionResource{Group: "demo.example.com", Resource: "widgets"}}
	m.migration.Status.CompletedGeneration, m.migration.Status.Run.Generation, m.migration.Status.StorageVersionHash = 2, 2, hashOf("v2")
	m.migration.Status.ResourceVersion, m.migration.Status.Epoch = "45", &v1alpha1.Epoch{Servers: []string{"p1"}, Evidence: "Observed"}
	m.migration.Status.Run.StartResourceVersion = "30"
	tr := &trigger{
		Options: Options{Logger: slog.New(slog.DiscardHandler)}, client: m, journal: newJournal(func() {}),
		positions: map[string]position{settled: 0}, refused: map[string]string{}, proved: map[string]uint64{},
		moved: make(chan struct{}, 1), events: events.NewFakeRecorder(10),
	}
	tr.journal.serversListed(map[string]tenure{"api-1": {"p1", noon}}, 1)
	tr.positions[settled] = tr.journal.here()
	tr.observer = observer{rest: client, live: m, journal: tr.journal,
		etcds: comparer{rest: client, compared: map[string]string{}, collections: map[string]collection{}}}
	return tr, m
}

// The change of a CRD is recorded before a proof of the earlier version trims: the proof does not cover what was
// written since (I1).
func TestWhatACRDTellsIsRecordedBeforeAProofTrims(t *testing.T) {
	tr, m := settling(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.demo.example.com"},
		 "spec": {"group": "demo.example.com", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": true}]}}`)
	})
	tr.observer.etcds.collections[settled] = collection{main: true}
	tr.journal.crdsListed(map[string]specState{settled: {"u", 1}})
	tr.journal.defines(settled, specState{"u", 2}) // v1 is stored again
	if _, err := tr.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, persisted := range append(m.written, m.state.Status.PersistedStorageVersionHashes) {
		if !slices.Contains(persisted, hashOf("v1")) {
			t.Errorf("written are %v, without %s (v1)", m.written, hashOf("v1"))
		}
	}
	if m.state.Status.Epoch != nil {
		t.Errorf("the epoch that the CRD has ended is still recorded: %+v", m.state.Status)
	}
}

func TestAProofTrimsOnlyWithAFreshComparison(t *testing.T) {
	var collectionVersion, lists atomic.Int64
	tr, m := settling(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/storagestates") {
			fmt.Fprint(w, `{"metadata": {"resourceVersion": "80"}, "items": []}`)
			return
		}
		lists.Add(1)
		if collectionVersion.Load() == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if r.URL.Path != "/apis/demo.example.com/v2/widgets" || r.URL.Query().Get("limit") != "1" ||
			r.URL.Query().Has("resourceVersion") || r.URL.Query().Has("fieldSelector") {
			t.Errorf("asked for %s", r.URL)
		}
		fmt.Fprintf(w, `{"metadata": {"resourceVersion": "%d"}, "items": [{"metadata": {"uid": "w", "resourceVersion": "44"}}]}`, collectionVersion.Load())
	})
	tr.observer.etcds.collections[settled] = widgetsAt
	both := []string{hashOf("v1"), hashOf("v2")}
	for _, step := range []struct {
		name    string
		version int64
		want    []string
		look    bool
	}{
		{"the collection cannot be listed", 0, both, true},
		{"the collection is older than the run's baseline", 44, both, true},
		{"the collection is as new as it must be", 77, []string{hashOf("v2")}, false},
	} {
		collectionVersion.Store(step.version)
		look, err := tr.settle(t.Context())
		if diff := cmp.Diff(step.want, m.state.Status.PersistedStorageVersionHashes); diff != "" ||
			err != nil || look != step.look {
			t.Errorf("%s: look %v, error %v, persisted (-want +got):\n%s", step.name, look, err, diff)
		}
	}
	if s := m.state.Status; s.ResourceVersion != "77" || s.Witness == nil ||
		*s.Witness != (v1alpha1.RecordedWitness{UID: "w", ResourceVersion: "44"}) {
		t.Errorf("recorded with the proof: %q, %+v", s.ResourceVersion, s.Witness)
	}
	if tr.proved[settled] != 50 || tr.lookAgain.IsZero() {
		t.Errorf("no look completes the proof: %v, %v", tr.proved, tr.lookAgain)
	}
	before := lists.Load()
	if _, err := tr.settle(t.Context()); err != nil || lists.Load() != before {
		t.Errorf("%d requests for what is proven already (%v)", lists.Load()-before, err)
	}
}

// What a proof proves for good (I10): nothing, if not every API server was asked, or if the resource is not known to be in
// the etcd of the StorageStates, which is at 50 before.
func TestWhatLastsOfAProof(t *testing.T) {
	for name, test := range map[string]struct {
		evidence string
		after    int
		proven   ledger.Proven
	}{
		"every API server was asked": {"Observed", 80, ledger.Proven{Hash: hashOf("v2"), UpTo: 45}},
		"they declare it":            {"Declared", 80, ledger.Proven{Hash: hashOf("v2"), UpTo: 45}},
		"only an address was asked":  {evidence: "Sampled", after: 80},
		"an unknown word":            {evidence: "Certain", after: 80},
		"an etcd of its own":         {evidence: "Observed", after: 76},
	} {
		tr, m := settling(t, func(w http.ResponseWriter, r *http.Request) {
			version := 77
			if strings.HasSuffix(r.URL.Path, "/storagestates") {
				version = test.after
			}
			fmt.Fprintf(w, `{"metadata": {"resourceVersion": "%d"}, "items": []}`, version)
		})
		tr.observer.etcds.collections[settled] = widgetsAt
		m.migration.Status.Epoch.Evidence = test.evidence
		if _, err := tr.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := recorded(&m.state.Status); !got.Migrated() || got.Proven != test.proven {
			t.Errorf("%s: %v is stored, and proven for good is %+v, want %+v", name, got.Persisted, got.Proven, test.proven)
		}
	}
}

// After a proof, the next look that records more is written at once, and later ones only with the heartbeat.
func TestALookCompletesAProof(t *testing.T) {
	tr, m := settling(t, nil)
	tr.Period = DefaultPeriod
	proven := recorded(&m.state.Status)
	proven.Persisted, proven.Heartbeat = []string{hashOf("v2")}, time.Now()
	look := func(upTo uint64) (writes int) {
		before := len(m.written)
		proven.Proven = ledger.Proven{Hash: hashOf("v2"), UpTo: upTo}
		e := &entryPlan{name: settled, state: m.state.DeepCopy(), resource: &resource{names: []string{settled}, view: view},
			decision: ledger.Decision{State: proven}}
		if err := tr.record(t.Context(), e, &observation{}); err != nil {
			t.Fatal(err)
		}
		return len(m.written) - before
	}
	for i, step := range []struct {
		upTo   uint64
		writes int
	}{{45, 1}, {46, 0}, {40 + 60, 1}, {101, 0}} {
		if i == 1 {
			tr.proved[settled] = 77
		}
		if n := look(step.upTo); n != step.writes {
			t.Errorf("proven up to %d: %d writes, want %d", step.upTo, n, step.writes)
		}
	}
}

// Every look finds again that a migration proves nothing, and there can be many looks in a minute.
func TestWhyAMigrationProvesNothingIsLoggedOnce(t *testing.T) {
	tr, m := settling(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	var log strings.Builder
	tr.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for i, step := range []struct {
		refused string
		lines   int
	}{{"the run started too early", 1}, {"the run started too early", 1}, {"the epoch is another one", 2}, {"", 2},
		{"the epoch is another one", 3}} {
		e := &entryPlan{
			name: settled, state: m.state.DeepCopy(), resource: &resource{names: []string{settled}, view: view},
			decision: ledger.Decision{State: recorded(&m.state.Status), Refused: step.refused},
		}
		if err := tr.record(t.Context(), e, &observation{}); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "proves nothing"); lines != step.lines {
			t.Errorf("after look %d there are %d lines, want %d:\n%s", i+1, lines, step.lines, log.String())
		}
	}
}

// A restored proof does not trim a restored StorageState. The next look records the doubt.
func TestARestoredRecordIsNotTrimmed(t *testing.T) {
	tr, m := settling(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	tr.observer.etcds.collections[settled] = collection{main: true}
	backup, written := m.state, m.state
	if err := tr.write(t.Context(), written.DeepCopy(),
		v1alpha1.StorageStateStatus{PersistedStorageVersionHashes: []string{"h"}}, "", 0); err != nil {
		t.Fatal(err)
	}
	// restored with a bumped revision, to a moment before that was written
	m.state, m.version, m.written = backup, 1_000_000_000, nil
	look, err := tr.settle(t.Context())
	if err != nil || !look || !tr.restored || len(m.written) > 0 {
		t.Errorf("look %v, restored %v, written %v (%v)", look, tr.restored, m.written, err)
	}
}

func TestARunThatStartedTooEarlyTrimsNothing(t *testing.T) {
	for _, start := range []string{"29", "", "abc"} {
		tr, m := settling(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"metadata": {"resourceVersion": "77"}, "items": []}`)
		})
		tr.observer.etcds.collections[settled] = widgetsAt
		m.migration.Status.Run.StartResourceVersion = start
		if look, err := tr.settle(t.Context()); err != nil || !look || len(m.written) > 0 {
			t.Errorf("started at %q, and 29 is required: look %v, written %v (%v)", start, look, m.written, err)
		}
	}
}

// The recorded epoch is that of the proof, but API servers were restarted since: an etcd may have been restored and
// have caught up.
func TestOnlyALookTrimsAfterAPIServersHaveMoved(t *testing.T) {
	tr, m := settling(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	for name, disturb := range map[string]func(){
		"one came":            func() { tr.journal.holds("api-2", tenure{"p2", noon}, 2) },
		"no one watches":      tr.journal.serversLost,
		"they are aggregated": func() { tr.observer.etcds.collections[settled] = collection{aggregated: true} },
	} {
		tr.journal.serversListed(map[string]tenure{"api-1": {"p1", noon}}, 1)
		tr.positions[settled] = tr.journal.here()
		tr.observer.etcds.collections[settled] = collection{main: true}
		disturb()
		if look, err := tr.settle(t.Context()); err != nil || !look || len(m.written) > 0 {
			t.Errorf("%s: look %v, written %v (%v)", name, look, m.written, err)
		}
	}
}

var widgetsAt = collectionOf(&resource{entry: &inventory.Resource{
	GroupResource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
	Endpoint:      "v2", Namespaced: true,
}}, "kube-migrator")

// An account that is forbidden to list objects asks for a name that no object has: the answer shows the position of the
// collection and no object.
func TestACollectionIsComparedWithoutReadingAnyObject(t *testing.T) {
	var asked []string
	tr, _ := settling(t, func(w http.ResponseWriter, r *http.Request) {
		selector := r.URL.Query().Get("fieldSelector")
		asked = append(asked, r.URL.Path+" "+selector)
		if selector != "metadata.name="+inventory.NoObject {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`)
			return
		}
		fmt.Fprint(w, `{"metadata": {"resourceVersion": "77"}, "items": []}`)
	})
	tr.observer.etcds.collections[settled] = widgetsAt
	for range 2 {
		got, err := tr.observer.etcds.read(t.Context(), []string{settled}, 0)
		if err != nil || got[settled] != (ledger.Collection{ResourceVersion: 77}) {
			t.Errorf("read %+v, %v", got, err)
		}
	}
	const small = "/apis/demo.example.com/v2/namespaces/kube-migrator/widgets metadata.name=" + inventory.NoObject
	if diff := cmp.Diff([]string{"/apis/demo.example.com/v2/widgets ", small, small}, asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}
