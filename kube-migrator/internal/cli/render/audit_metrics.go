// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// AuditMetrics writes an audit's report in the text format of Prometheus, such as the textfile collector of its node
// exporter reads it. Its metrics are in docs/metrics.md.
func AuditMetrics(w io.Writer, report *etcdaudit.Report) error {
	objects := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kube_migrator_audit_objects",
		Help: "Objects that etcd holds, by the version that they are stored in.",
	}, []string{"resource", "stored", "verdict"})
	read := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kube_migrator_audit_timestamp_seconds",
		Help: "When the audit read etcd or the snapshot, in seconds since 1970.",
	})
	read.Set(float64(report.ReadTime.Unix()))
	for _, r := range report.Rows {
		if r.Comparison == etcdaudit.NoObject {
			continue
		}
		series, err := objects.GetMetricWithLabelValues(label(r.Resource), label(r.APIVersion),
			verdicts[r.Comparison])
		if err != nil {
			return fmt.Errorf("count %s: %w", r.Resource, err)
		}
		series.Add(float64(r.Objects)) // rows that differ only in their encoding are one series
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(objects, read)
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("collect the metrics: %w", err)
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return err
		}
	}
	return nil
}

// verdicts are the values of the label verdict.
var verdicts = map[etcdaudit.Comparison]string{etcdaudit.IsCurrent: "current", etcdaudit.IsStale: "stale",
	etcdaudit.IsUndetermined: "undetermined", etcdaudit.NotCompared: "not_compared"}

// label makes a value of a label of what a key in etcd contains, which may be any bytes.
func label(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
