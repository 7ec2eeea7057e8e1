// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// shelf holds migrations as an API server does, or as a cache that strips and indexes them, and counts what is asked of
// it.
type shelf struct {
	client.Client
	cache.Informers
	mu     sync.Mutex // of this shelf's counts and, on an API server's shelf, of the objects
	all    map[string]*v1alpha1.StorageVersionMigration
	cached bool
	server *shelf // where a cache's client writes
	// objects that were given from the cache, objects that were read whole, lists of all, and writes
	given, whole, lists, writes int
}

func (s *shelf) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &v1alpha1.StorageVersionMigration{}, 0, nil), nil
}

func (s *shelf) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	o := new(client.ListOptions).ApplyOptions(options)
	if _, ok := list.(*metav1.PartialObjectMetadataList); ok && o.Limit == 1 {
		list.SetResourceVersion("77")
		return nil
	}
	found := list.(*v1alpha1.StorageVersionMigrationList)
	if o.FieldSelector == nil {
		s.lists++
	}
	for _, m := range s.all {
		state := "true"
		if resting(stripped(m)) {
			state = ""
		}
		if o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{openIndex: state, uidIndex: string(m.UID)}) ||
			o.FieldSelector.String() == openIndex+"=true" && state == "true" ||
			o.FieldSelector.String() == uidIndex+"="+string(m.UID) {
			found.Items = append(found.Items, *stripped(m))
			s.given++
		}
	}
	return nil
}

func (s *shelf) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.all[key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "storageversionmigrations"}, key.Name)
	}
	if s.cached {
		stripped(m).DeepCopyInto(o.(*v1alpha1.StorageVersionMigration))
		return nil
	}
	s.whole++
	m.DeepCopyInto(o.(*v1alpha1.StorageVersionMigration))
	return nil
}

func (s *shelf) Delete(_ context.Context, o client.Object, _ ...client.DeleteOption) error {
	delete(s.all, o.GetName())
	return nil
}

func (s *shelf) Status() client.SubResourceWriter { return shelfStatus{shelf: s} }

type shelfStatus struct {
	client.SubResourceWriter
	shelf *shelf
}

func (s shelfStatus) Update(_ context.Context, o client.Object, _ ...client.SubResourceUpdateOption) error {
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	s.shelf.writes++
	m := s.shelf.server.all[o.GetName()]
	if m.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
	}
	m.Status = o.(*v1alpha1.StorageVersionMigration).DeepCopy().Status
	m.ResourceVersion += "1"
	o.SetResourceVersion(m.ResourceVersion)
	return nil
}

// noted are runs that are started and removed by noting it.
type noted struct {
	mu      sync.Mutex
	all     []run
	started []string
	removed []string
}

func (n *noted) list(context.Context, bool) ([]run, error) { return slices.Clone(n.all), nil }

func (n *noted) start(_ context.Context, _ *v1alpha1.StorageVersionMigration, r run, _ string) error {
	r.active = true
	n.all, n.started = append(n.all, r), append(n.started, r.migration)
	return nil
}
func (n *noted) halt(context.Context, run) error           { return nil }
func (n *noted) giveUp(context.Context, run, string) error { return nil }
func (n *noted) remove(_ context.Context, r run) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = append(n.removed, r.name)
	n.all = slices.DeleteFunc(n.all, func(other run) bool { return other.name == r.name })
	return nil
}

// passing is a controller of the given migrations; kept is its cache and past what is read past that. They hold the
// same objects.
func passing(t *testing.T, all ...*v1alpha1.StorageVersionMigration) (c *controller, kept, past *shelf, n *noted) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	restClient, err := apiserver.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	counters, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]*v1alpha1.StorageVersionMigration{}
	for _, m := range all {
		objects[m.Name] = m
	}
	past, n = &shelf{all: objects}, &noted{}
	kept = &shelf{all: objects, cached: true, server: past}
	return &controller{
		client: kept, cache: kept, live: past, rest: restClient, runs: n, metrics: counters,
		events: events.NewFakeRecorder(100_000),
		log:    slog.New(slog.DiscardHandler), most: 1, firstRetry: time.Minute,
	}, kept, past, n
}

// manyFinished are migrations that have succeeded, and say so.
func manyFinished(n int) (all []*v1alpha1.StorageVersionMigration) {
	for i := range n {
		m := aMigration(func(m *v1alpha1.StorageVersionMigration) {
			m.Name, m.UID, m.ResourceVersion = fmt.Sprint("finished-", i), types.UID(fmt.Sprint("f", i)), "1"
			m.Status.CompletedGeneration, m.Status.Summary = m.Spec.Generation, "All objects are stored in v2"
		})
		now := time.Now()
		m.Status = statusAfter(m, decide(facts{now: now, since: now, migration: m}), now, 0)
		all = append(all, m)
	}
	return all
}

func fresh(name string) *v1alpha1.StorageVersionMigration {
	return aMigration(func(m *v1alpha1.StorageVersionMigration) {
		m.Name, m.UID, m.ResourceVersion, m.Spec.Resource.Resource = name, types.UID("of-"+name), "1", name
	})
}

func (c *controller) passes(t *testing.T, n int) {
	t.Helper()
	for range n {
		if _, err := c.Reconcile(t.Context(), request{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrationsThatHaveSucceededCostNothingPerPass(t *testing.T) {
	c, kept, past, n := passing(t, append(manyFinished(5000), fresh("gadgets"), fresh("widgets"))...)
	c.passes(t, 1)
	if !slices.Equal(n.started, []string{"gadgets"}) {
		t.Fatalf("started %v, want the first one", n.started)
	}
	c.passes(t, 1)
	*kept, *past = shelf{all: kept.all, cached: true, server: past}, shelf{all: past.all}
	c.passes(t, 10)
	if past.lists > 0 || past.whole > 0 || kept.lists > 0 || kept.given > 10*2 || kept.writes > 0 {
		t.Errorf("10 passes with nothing to do take %d objects from the cache and %d past it, %d+%d lists of all, %d "+
			"writes; want 20, 0, 0, 0",
			kept.given, past.whole, kept.lists, past.lists, kept.writes)
	}
}

func TestWhatIsDoneForAMigrationRestsOnItAsTheAPIServerHasIt(t *testing.T) {
	c, kept, past, n := passing(t, fresh("gadgets"))
	past.all = map[string]*v1alpha1.StorageVersionMigration{"gadgets": fresh("gadgets")}
	past.all["gadgets"].Spec.State = v1alpha1.StatePaused // the cache does not show that yet
	past.all["gadgets"].ResourceVersion = "2"
	c.passes(t, 3)
	if len(n.started) > 0 {
		t.Errorf("started %v, which is paused", n.started)
	}
	kept.all, past.all = map[string]*v1alpha1.StorageVersionMigration{}, kept.all
	past.all["gadgets"] = fresh("gadgets")
	works := newRun(past.all["gadgets"], 2, 1)
	works.active, works.begun = true, time.Now()
	n.all = []run{works} // the cache does not show its migration yet
	c.passes(t, 3)
	if len(n.removed) > 0 {
		t.Errorf("removed %v, whose migration exists", n.removed)
	}
	delete(past.all, "gadgets")
	c.passes(t, 1)
	if len(n.removed) != 1 {
		t.Errorf("removed %v, want the orphan", n.removed)
	}
}

// gathering are runs whose halt returns when all of them are being halted.
type gathering struct {
	*noted
	missing sync.WaitGroup
}

func (g *gathering) halt(ctx context.Context, r run) error {
	g.missing.Done()
	together := make(chan struct{})
	go func() { g.missing.Wait(); close(together) }()
	select {
	case <-together:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%s is halted alone", r.name)
	}
}

func TestAMigrationDoesNotWaitUntilAPassHasFinishedWithTheOthers(t *testing.T) {
	var all []*v1alpha1.StorageVersionMigration
	n := &gathering{noted: &noted{}}
	for i := range atOnce {
		m := fresh(fmt.Sprint("gadgets-", i))
		m.Spec.State = v1alpha1.StatePaused
		works := newRun(m, 2, 1)
		works.active = true
		all, n.all = append(all, m), append(n.all, works)
	}
	c, _, _, _ := passing(t, all...)
	c.runs = n
	n.missing.Add(atOnce)
	if _, err := c.Reconcile(t.Context(), request{}); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Status.State != v1alpha1.PhasePaused {
			t.Errorf("the status of %s is %q, want Paused", m.Name, m.Status.State)
		}
	}
}

func TestTheRunOfAMigrationThatHasSucceededIsRemoved(t *testing.T) {
	all := manyFinished(3)
	c, _, _, n := passing(t, all...)
	n.all = []run{newRun(all[1], all[1].Spec.Generation, 1)}
	c.passes(t, 1)
	if len(n.removed) != 1 || len(n.all) != 0 {
		t.Errorf("removed %v", n.removed)
	}
}

// A user who may create migrations may name any resource.
func TestMadeUpNamesLeaveTheNumberOfSeriesBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	var all []*v1alpha1.StorageVersionMigration
	for i := range 5000 {
		made := fresh(fmt.Sprint("made-up-", i))
		after := made.Status
		after.State = v1alpha1.PhaseFailed
		m.noted(made)
		m.show(snapshot{now: noon, migrations: []v1alpha1.StorageVersionMigration{*made},
			runs: []run{newRun(made, 1, 1)}})
		m.ended(made, made.Status, after)
		all = append(all, made)
	}
	if n := series(); n > 1 { // of the runs of all others
		t.Errorf("%d series for 5,000 made-up names, want 1", n)
	}
	for _, one := range all { // also where each of them exists
		one.Status.StorageVersionHash = "hash"
		m.noted(one)
		m.ended(one, v1alpha1.StorageVersionMigrationStatus{},
			v1alpha1.StorageVersionMigrationStatus{State: v1alpha1.PhaseSucceeded})
	}
	if n := series(); n > 9*mostResources+2 {
		t.Errorf("%d series for 5,000 resources, want at most those of %d", n, mostResources)
	}
	again := all[0].DeepCopy()
	again.UID = "another"
	m.noted(again)
	for _, one := range all {
		m.gone(toolscache.DeletedFinalStateUnknown{Key: one.Name, Obj: one})
	}
	left := series()
	m.gone(again)
	if n := series(); left < 5 || n != 2 { // of the runs of all others
		t.Errorf("%d series with one migration of a resource left, %d with none, want 2", left, n)
	}
}
