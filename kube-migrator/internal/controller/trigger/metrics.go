// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// The reasons for which a StorageState is abnormal, and the results of looks.
const (
	abnormalUnknown      = "unknown"
	abnormalDisagreement = "disagreement"
	abnormalForbidden    = "forbidden"
	abnormalNotMigrated  = "not_migrated"

	lookComplete   = "complete"
	lookIncomplete = "incomplete"
	lookFailed     = "failed"
)

var reasons = []string{abnormalDisagreement, abnormalForbidden, abnormalNotMigrated, abnormalUnknown}

// mostNamed is how many abnormal resources have a series of their own (I6). All resources of a cluster are abnormal
// while it is bootstrapped. The totals count every resource.
const mostNamed = 100

// metrics report StorageStates as they are recorded, and looks. StorageStates are counted when the metrics are read, so
// that all numbers have the same age.
type metrics struct {
	looks    *prometheus.CounterVec
	duration prometheus.Histogram
	// complete has no sample before the first complete look.
	complete *prometheus.GaugeVec

	states, abnormal, named, heartbeat *prometheus.Desc

	mu sync.Mutex
	// records are by name of the StorageState. They are nil if this process has never been the leader and knows none.
	records map[string]measured
}

// measured is the part of a StorageState that is counted.
type measured struct {
	excluded  bool
	heartbeat time.Time
	reasons   []string
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	name := func(name string) string { return prometheus.BuildFQName("kube_migrator", "", name) }
	m := &metrics{
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("looks_total"), Help: "Looks at all API servers by result: complete, incomplete (API servers " +
				"disagree, have not answered or are about to end) or failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name("look_duration_seconds"), Help: "How long a look at all API servers took, until what it saw " +
				"was recorded and migrations were requested.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120},
		}),
		complete: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: name("last_complete_look_timestamp_seconds"),
			Help: "When the last complete look ended, in seconds since 1970.",
		}, nil),
		states: prometheus.NewDesc(name("storage_states"),
			"Number of StorageStates, by whether the installation excludes the resource.", []string{"excluded"}, nil),
		abnormal: prometheus.NewDesc(name("abnormal_storage_states"),
			"Number of StorageStates of resources that are not excluded, by reason: unknown, disagreement, forbidden "+
				"or not_migrated. One that is abnormal for several reasons counts for each.", []string{"reason"}, nil),
		named: prometheus.NewDesc(name("abnormal_resource"),
			"1 for a resource whose StorageState is abnormal, by reason; absent for others. At most "+
				strconv.Itoa(mostNamed)+" resources, the first by name.", []string{"resource", "reason"}, nil),
		heartbeat: prometheus.NewDesc(name("oldest_heartbeat_timestamp_seconds"),
			"The oldest lastHeartbeatTime of a StorageState, in seconds since 1970.", nil, nil),
	}
	for _, c := range []prometheus.Collector{m.looks, m.duration, m.complete, m} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// begin registers the metrics that only a leader reports.
func (m *metrics) begin() {
	for _, result := range []string{lookComplete, lookIncomplete, lookFailed} {
		m.looks.WithLabelValues(result)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = map[string]measured{}
	}
}

// looked counts a look.
func (m *metrics) looked(begun, ended time.Time, complete bool, err error) {
	result := lookIncomplete
	switch {
	case err != nil:
		result = lookFailed
	case complete:
		result = lookComplete
		m.complete.WithLabelValues().Set(float64(ended.UnixMilli()) / 1000)
	}
	m.looks.WithLabelValues(result).Inc()
	m.duration.Observe(ended.Sub(begun).Seconds())
}

// measure returns the part of a status that is counted. It is pure.
func measure(s *v1alpha1.StorageStateStatus) measured {
	m := measured{excluded: s.Excluded, heartbeat: s.LastHeartbeatTime.Time}
	if s.Excluded {
		return m
	}
	for reason, holds := range map[string]bool{
		abnormalUnknown: isUnknown(s), abnormalDisagreement: disagree(s), abnormalForbidden: isForbidden(s) &&
			!isByHand(s), abnormalNotMigrated: !isMigrated(s),
	} {
		if holds {
			m.reasons = append(m.reasons, reason)
		}
	}
	return m
}

func (m *metrics) recorded(o any) {
	if s, ok := o.(*v1alpha1.StorageState); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.records[s.Name] = measure(&s.Status)
	}
}

func (m *metrics) forgot(o any) {
	if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	if s, ok := o.(*v1alpha1.StorageState); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.records, s.Name)
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.states, m.abnormal, m.named, m.heartbeat} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(c chan<- prometheus.Metric) {
	m.mu.Lock()
	records := maps.Clone(m.records)
	m.mu.Unlock()
	if records == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	excluded, counts, named := 0, map[string]int{}, 0
	var oldest time.Time
	for _, name := range slices.Sorted(maps.Keys(records)) {
		r := records[name]
		if r.excluded {
			excluded++
		}
		if !r.heartbeat.IsZero() && (oldest.IsZero() || r.heartbeat.Before(oldest)) {
			oldest = r.heartbeat
		}
		for _, reason := range r.reasons {
			counts[reason]++
			if named < mostNamed {
				gauge(m.named, 1, name, reason)
			}
		}
		if len(r.reasons) > 0 {
			named++
		}
	}
	gauge(m.states, float64(excluded), "true")
	gauge(m.states, float64(len(records)-excluded), "false")
	for _, reason := range reasons {
		gauge(m.abnormal, float64(counts[reason]), reason)
	}
	if !oldest.IsZero() {
		gauge(m.heartbeat, float64(oldest.Unix()))
	}
}
