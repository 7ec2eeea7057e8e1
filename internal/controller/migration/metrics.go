// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// metrics tell of migrations by resource, never by object: their number does not grow with what is stored (I6).
type metrics struct {
	// The three that kube-storage-version-migrator has, under their names.
	migrated   *prometheus.CounterVec
	remaining  *prometheus.GaugeVec
	migrations *prometheus.CounterVec

	objects   *prometheus.GaugeVec
	rate      *prometheus.GaugeVec
	duration  *prometheus.GaugeVec
	throttled *prometheus.GaugeVec

	mu sync.Mutex
	// counted is how many objects of a generation are in migrated already: attempts go on counting.
	counted map[string]int64
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	resource := []string{"resource"}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kube_migrator", Name: name, Help: help}, append(resource, labels...))
	}
	const peer, core = "storage_migrator", "core_migrator"
	m := &metrics{
		migrated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: peer, Subsystem: core, Name: "migrated_objects", Help: "Objects that were rewritten since this controller began to lead.",
		}, resource),
		remaining: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: peer, Subsystem: core, Name: "remaining_objects", Help: "Objects that the present run has not come to yet; an estimate until all have been listed.",
		}, resource),
		migrations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: peer, Subsystem: core, Name: "migrations", Help: "Runs that have ended, by status: Succeeded or Failed.",
		}, append(resource, "status")),
		objects:   gauge("objects", "Objects of the last run by what became of them: rewritten, current, gone or failed.", "state"),
		rate:      gauge("objects_per_second", "Present rate of the run; 0 when none is at work."),
		duration:  gauge("run_duration_seconds", "How long the last run has taken, or has been taking so far."),
		throttled: gauge("throttled_seconds", "How long the last run stood still because the API server asked for it."),
		counted:   map[string]int64{},
	}
	for _, c := range []prometheus.Collector{m.migrated, m.remaining, m.migrations, m.objects, m.rate, m.duration, m.throttled} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// show repeats what a pass has seen.
func (m *metrics) show(s snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range s.migrations {
		migration := &s.migrations[i]
		name, p := resourceOf(migration), migration.Status.Progress
		for state, n := range map[string]int64{"rewritten": p.Rewritten, "current": p.Current, "gone": p.Gone, "failed": p.Failed} {
			m.objects.WithLabelValues(name, state).Set(float64(n))
		}
		m.remaining.WithLabelValues(name).Set(float64(max(0, p.Total-p.Done)))
		m.rate.WithLabelValues(name).Set(float64(p.ObjectsPerSecond))
		if end := p.CompletionTime.Time; !p.StartTime.IsZero() {
			if end.IsZero() {
				end = s.now
			}
			m.duration.WithLabelValues(name).Set(max(0, end.Sub(p.StartTime.Time)).Truncate(time.Second).Seconds())
		}
	}
	exists := map[string]bool{}
	for _, r := range s.runs {
		run := fmt.Sprintf("%s-%d", r.uid, r.generation)
		exists[run] = true
		if r.report == nil {
			continue
		}
		name := r.migration
		if i := indexOf(s.migrations, r); i >= 0 {
			name = resourceOf(&s.migrations[i])
		}
		m.throttled.WithLabelValues(name).Set(r.report.ThrottledSeconds)
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

func indexOf(all []v1alpha1.StorageVersionMigration, r run) int {
	for i := range all {
		if all[i].UID == r.uid {
			return i
		}
	}
	return -1
}

// ended counts a run that has succeeded or failed.
func (m *metrics) ended(migration *v1alpha1.StorageVersionMigration, before, after v1alpha1.StorageVersionMigrationStatus) {
	if before.State == after.State {
		return
	}
	if after.State == v1alpha1.PhaseSucceeded || after.State == v1alpha1.PhaseFailed {
		m.migrations.WithLabelValues(resourceOf(migration), string(after.State)).Inc()
	}
}

func resourceOf(m *v1alpha1.StorageVersionMigration) string {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String()
}
