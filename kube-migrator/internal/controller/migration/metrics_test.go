// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

func TestTheDocumentedMetricsOfMigrationsAreThoseThatAreRegistered(t *testing.T) {
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	descriptions := make(chan *prometheus.Desc, 100)
	for _, c := range m.collectors() {
		c.Describe(descriptions)
	}
	close(descriptions)
	var registered, documented []string
	for d := range descriptions {
		registered = append(registered, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	raw, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Migrations\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(registered)
	slices.Sort(documented)
	if diff := cmp.Diff(registered, documented); diff != "" {
		t.Errorf("docs/metrics.md (-registered +documented):\n%s", diff)
	}
}

func TestAFailedRunCountsUntilAnAttemptSucceeds(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	migration := &v1alpha1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{UID: types.UID("1")},
		Spec: v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Resource: "secrets"}}}
	migration.Status.StorageVersionHash = "h"
	for _, step := range []struct {
		phase  v1alpha1.Phase
		reason string
		want   []string
	}{
		{v1alpha1.PhaseRunning, "", []string{"state=Running"}},
		{v1alpha1.PhaseFailed, string(worker.ResultNoProgress), []string{"reason=NoProgress", "state=Failed"}},
		{v1alpha1.PhaseRunning, "", []string{"reason=NoProgress", "state=Running"}},
		{v1alpha1.PhaseFailed, "made up", []string{"reason=Unknown", "state=Failed"}},
		{v1alpha1.PhaseWaiting, "", []string{"reason=Unknown", "state=Waiting"}},
		{v1alpha1.PhaseSucceeded, "", []string{"state=Succeeded"}},
		{v1alpha1.PhaseFailed, string(worker.ResultBroken), []string{"reason=Broken", "state=Failed"}},
		{v1alpha1.PhaseCancelled, "", []string{"state=Cancelled"}},
	} {
		migration.Status.State = step.phase
		migration.Status.Conditions = nil
		if step.reason != "" {
			migration.Status.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionFailed, Reason: step.reason}}
		}
		m.noted(migration)
		if diff := cmp.Diff(step.want, seriesOf(t, registry)); diff != "" {
			t.Errorf("in the state %s (-want +got):\n%s", step.phase, diff)
		}
	}
	older := migration.DeepCopy()
	older.UID, older.CreationTimestamp, older.Status.State = "0", metav1.Unix(1, 0), v1alpha1.PhaseFailed
	migration.CreationTimestamp, migration.Status.State = metav1.Unix(2, 0), v1alpha1.PhaseSucceeded
	m.noted(migration)
	m.noted(older)
	if diff := cmp.Diff([]string{"state=Succeeded"}, seriesOf(t, registry)); diff != "" {
		t.Errorf("an older migration counts (-want +got):\n%s", diff)
	}
	m.gone(older)
	m.gone(migration)
	if left := seriesOf(t, registry); left != nil {
		t.Errorf("of a migration that was deleted %v are left", left)
	}
}

// seriesOf returns the labels of the series about states and failures, without the resource.
func seriesOf(t *testing.T, registry *prometheus.Registry) (all []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if name := f.GetName(); name != "kube_migrator_migration_state" && name != "kube_migrator_last_run_failed" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() != "resource" {
					all = append(all, label.GetName()+"="+label.GetValue())
				}
			}
		}
	}
	slices.Sort(all)
	return all
}
