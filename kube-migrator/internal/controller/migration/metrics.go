// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// mostResources bounds how many resources have series of their own (I6). It is more than real clusters have.
const mostResources = 1000

// otherResources is the label of runs of all other resources.
const otherResources = "(others)"

// metrics describe migrations by resource, never by object, so that their number does not grow with the number of
// objects (I6). Users who may create migrations choose the names of resources. So a resource gets series only after a
// run has found in which version the API servers store it, and keeps them as long as it has a migration; invented names
// get none.
type metrics struct {
	// The three metrics that kube-storage-version-migrator has, with the same names.
	migrated   *prometheus.CounterVec
	remaining  *prometheus.GaugeVec
	migrations *prometheus.CounterVec

	objects   *prometheus.GaugeVec
	rate      *prometheus.GaugeVec
	duration  *prometheus.GaugeVec
	throttled *prometheus.GaugeVec
	state     *prometheus.GaugeVec
	failed    *prometheus.GaugeVec

	// follows means that begin was called.
	follows bool

	mu sync.Mutex
	// named are the migrations of each resource that has series, with the time of their creation.
	named map[string]map[types.UID]time.Time
	// counted is how many objects of a generation have been added to migrated: later attempts continue the count.
	counted map[string]int64
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	resource := []string{"resource"}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kube_migrator", Name: name, Help: help},
			append(resource, labels...))
	}
	const peer, core = "storage_migrator", "core_migrator"
	m := &metrics{
		migrated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: peer, Subsystem: core, Name: "migrated_objects",
			Help: "Objects rewritten since this controller became the leader.",
		}, resource),
		remaining: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: peer, Subsystem: core, Name: "remaining_objects",
			Help: "Objects that the present run has not processed yet; an estimate until all have been listed.",
		}, resource),
		migrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: peer, Subsystem: core, Name: "migrations",
			Help: "Runs that have ended, by status: Succeeded or Failed.",
		}, append(resource, "status")),
		objects:  gauge("objects", "Objects of the last run by result: rewritten, current, gone or failed; and verified, by a second pass.", "state"),
		rate:     gauge("objects_per_second", "Present rate of the run; 0 while no worker is at work."),
		duration: gauge("run_duration_seconds", "How long the last run took, or the present run has taken so far."),
		throttled: gauge("throttled_seconds",
			"How long the last run paused because the API server asked it to slow down."),
		state: gauge("migration_state", "1 for the state that the migration is in; absent for others.", "state"),
		failed: gauge("last_run_failed", "1 while the last run that has ended is one that failed, by reason; absent "+
			"otherwise.", "reason"),
		named: map[string]map[types.UID]time.Time{}, counted: map[string]int64{},
	}
	for _, c := range m.collectors() {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.migrated, m.remaining, m.migrations, m.objects, m.rate, m.duration, m.throttled,
		m.state, m.failed}
}

// begin makes the metrics follow the cache, which first reports all existing migrations, because passes do not look at
// those at rest. Processes that wait for the Lease export nothing.
func (m *metrics) begin(ctx context.Context, c cache.Informers) error {
	if m.follows {
		return nil
	}
	informer, err := c.GetInformer(ctx, &v1alpha1.StorageVersionMigration{})
	if err != nil {
		return fmt.Errorf("watch migrations: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    m.noted,
		UpdateFunc: func(_, after any) { m.noted(after) },
		DeleteFunc: m.gone,
	})
	if err != nil {
		return fmt.Errorf("watch migrations: %w", err)
	}
	m.follows = true
	return nil
}

func (m *metrics) noted(o any) {
	if migration, ok := o.(*v1alpha1.StorageVersionMigration); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.repeat(migration, time.Now())
	}
}

// gone removes the series of a resource whose last migration was deleted.
func (m *metrics) gone(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	migration, ok := o.(*v1alpha1.StorageVersionMigration)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := resourceOf(migration)
	all, has := m.named[name]
	if delete(all, migration.UID); !has || len(all) > 0 {
		return
	}
	delete(m.named, name)
	of := prometheus.Labels{"resource": name}
	for _, v := range []*prometheus.GaugeVec{m.remaining, m.objects, m.rate, m.duration, m.throttled, m.state, m.failed} {
		v.DeletePartialMatch(of)
	}
	for _, v := range []*prometheus.CounterVec{m.migrated, m.migrations} {
		v.DeletePartialMatch(of)
	}
}

// label returns the resource of a migration if it has series of its own, and otherResources otherwise.
func (m *metrics) label(migration *v1alpha1.StorageVersionMigration) (name string, own bool) {
	name = resourceOf(migration)
	all, has := m.named[name]
	if !has && (migration.Status.StorageVersionHash == "" || len(m.named) >= mostResources) {
		return otherResources, false
	}
	if all == nil {
		all = map[types.UID]time.Time{}
		m.named[name] = all
	}
	all[migration.UID] = migration.CreationTimestamp.Time
	return name, true
}

// repeat exports the status of a migration.
func (m *metrics) repeat(migration *v1alpha1.StorageVersionMigration, now time.Time) {
	name, own := m.label(migration)
	if !own {
		return
	}
	p := migration.Status.Progress
	for state, n := range map[string]int64{"rewritten": p.Rewritten, "current": p.Current,
		"gone": p.Gone, "failed": p.Failed, "verified": p.Verified} {
		m.objects.WithLabelValues(name, state).Set(float64(n))
	}
	if m.isNewest(name, migration.UID) {
		m.showState(name, &migration.Status)
	}
	m.remaining.WithLabelValues(name).Set(float64(max(0, p.Total-p.Done)))
	m.rate.WithLabelValues(name).Set(float64(p.ObjectsPerSecond))
	if end := p.CompletionTime.Time; !p.StartTime.IsZero() {
		if end.IsZero() {
			end = now
		}
		m.duration.WithLabelValues(name).Set(max(0, end.Sub(p.StartTime.Time)).Truncate(time.Second).Seconds())
	}
}

// isNewest reports whether no migration of the resource is newer: a failure that another migration has made good since
// must not count.
func (m *metrics) isNewest(name string, uid types.UID) bool {
	for _, created := range m.named[name] {
		if created.After(m.named[name][uid]) {
			return false
		}
	}
	return true
}

// showState exports the state of a migration. A run that fails is followed by another attempt, in which the failure of
// the last one still counts: an alert about it goes on until an attempt succeeds.
func (m *metrics) showState(name string, s *v1alpha1.StorageVersionMigrationStatus) {
	of := prometheus.Labels{"resource": name}
	m.state.DeletePartialMatch(of)
	if s.State != "" {
		m.state.WithLabelValues(name, string(s.State)).Set(1)
	}
	switch s.State {
	case v1alpha1.PhaseFailed:
		m.failed.DeletePartialMatch(of)
		m.failed.WithLabelValues(name, failureReason(s)).Set(1)
	case v1alpha1.PhaseSucceeded, v1alpha1.PhaseCancelled:
		m.failed.DeletePartialMatch(of)
	case v1alpha1.PhasePending, v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning, v1alpha1.PhasePaused:
	}
}

// failureReason returns the reason of the condition Failed. Other programs may write the status, too, so it is one that
// this program knows, or "Unknown": the number of series is bounded (I6).
func failureReason(s *v1alpha1.StorageVersionMigrationStatus) string {
	for _, c := range s.Conditions {
		if c.Type == v1alpha1.ConditionFailed && slices.Contains(worker.Failures(), worker.Result(c.Reason)) {
			return c.Reason
		}
	}
	return "Unknown"
}

// show exports what a pass has seen.
func (m *metrics) show(s snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := map[types.UID]*v1alpha1.StorageVersionMigration{}
	for i := range s.migrations {
		owners[s.migrations[i].UID] = &s.migrations[i]
		m.repeat(&s.migrations[i], s.now)
	}
	exists := map[string]bool{}
	for _, r := range s.runs {
		run := fmt.Sprintf("%s-%d", r.uid, r.generation)
		exists[run] = true
		owner := owners[r.uid]
		if r.report == nil || owner == nil {
			continue
		}
		name, own := m.label(owner)
		if own {
			m.throttled.WithLabelValues(name).Set(r.report.ThrottledSeconds)
		}
		rewritten := r.report.Counts.Rewritten + r.report.Counts.RewrittenBefore
		if before := m.counted[run]; rewritten > before {
			m.migrated.WithLabelValues(name).Add(float64(rewritten - before))
			m.counted[run] = rewritten
		}
	}
	for run := range m.counted {
		if !exists[run] {
			delete(m.counted, run)
		}
	}
}

// ended counts a run that has succeeded or failed.
func (m *metrics) ended(migration *v1alpha1.StorageVersionMigration, before,
	after v1alpha1.StorageVersionMigrationStatus) {
	if before.State == after.State {
		return
	}
	if after.State == v1alpha1.PhaseSucceeded || after.State == v1alpha1.PhaseFailed {
		m.mu.Lock()
		defer m.mu.Unlock()
		name, _ := m.label(migration)
		m.migrations.WithLabelValues(name, string(after.State)).Inc()
	}
}

func resourceOf(m *v1alpha1.StorageVersionMigration) string {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String()
}
