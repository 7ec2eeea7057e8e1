// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// samples returns the lines of a registry; of a histogram only count and sum.
func samples(t *testing.T, registry *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			line := family.GetName() + "{" + strings.Join(labels, ",") + "} "
			switch {
			case m.GetHistogram() != nil:
				line += fmt.Sprint(m.GetHistogram().GetSampleCount(), " ", m.GetHistogram().GetSampleSum())
			case m.GetCounter() != nil:
				line += fmt.Sprint(m.GetCounter().GetValue())
			default:
				line += fmt.Sprintf("%.0f", m.GetGauge().GetValue())
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func named(name string, s *v1alpha1.StorageStateStatus) *v1alpha1.StorageState {
	return &v1alpha1.StorageState{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: *s}
}

func TestMetricsTellHowManyStorageStatesAreAbnormalAndWhich(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if got := samples(t, registry); slices.ContainsFunc(got, func(line string) bool {
		return !strings.HasPrefix(line,
			"kube_migrator_look_duration_seconds{} 0 ")
	}) {
		t.Errorf("a process that does not lead shows %q", got)
	}
	m.begin()
	old := noon.Add(-time.Hour)
	forbidden := stateThat(t, unknown)
	forbidden.Conditions = append(forbidden.Conditions,
		v1alpha1.Condition{Type: v1alpha1.ConditionPermitted, Status: metav1.ConditionFalse})
	excluded := stateThat(t, unknown)
	excluded.Excluded, excluded.LastHeartbeatTime = true, metav1.NewTime(old)
	disagreed := stateThat(t, func(s *ledger.State, v *agreement.Verdict) { proven(s, v); disagreeing(s, v) })
	gone := named("gone", stateThat(t, unknown))
	gone.Status.LastHeartbeatTime = metav1.NewTime(old.Add(-time.Hour))
	for _, s := range []*v1alpha1.StorageState{
		named("a", stateThat(t, proven)), named("b", stateThat(t, func(*ledger.State, *agreement.Verdict) {})),
		named("c", stateThat(t, unknown)),
		named("d", disagreed), named("e", forbidden), named("f", excluded), gone,
		named("new", new(v1alpha1.StorageStateStatus)),
	} {
		m.recorded(s)
	}
	m.forgot(toolscache.DeletedFinalStateUnknown{Key: "gone", Obj: gone})
	m.forgot(named("new", new(v1alpha1.StorageStateStatus)))
	want := []string{
		`kube_migrator_abnormal_resource{reason=disagreement,resource=d} 1`,
		`kube_migrator_abnormal_resource{reason=forbidden,resource=e} 1`,
		`kube_migrator_abnormal_resource{reason=not_migrated,resource=b} 1`,
		`kube_migrator_abnormal_resource{reason=not_migrated,resource=c} 1`,
		`kube_migrator_abnormal_resource{reason=not_migrated,resource=d} 1`,
		`kube_migrator_abnormal_resource{reason=not_migrated,resource=e} 1`,
		`kube_migrator_abnormal_resource{reason=unknown,resource=c} 1`,
		`kube_migrator_abnormal_resource{reason=unknown,resource=e} 1`,
		`kube_migrator_abnormal_storage_states{reason=disagreement} 1`,
		`kube_migrator_abnormal_storage_states{reason=forbidden} 1`,
		`kube_migrator_abnormal_storage_states{reason=not_migrated} 4`,
		`kube_migrator_abnormal_storage_states{reason=unknown} 2`,
		`kube_migrator_look_duration_seconds{} 0 0`,
		`kube_migrator_looks_total{result=complete} 0`,
		`kube_migrator_looks_total{result=failed} 0`,
		`kube_migrator_looks_total{result=incomplete} 0`,
		fmt.Sprintf(`kube_migrator_oldest_heartbeat_timestamp_seconds{} %d`, old.Unix()),
		`kube_migrator_storage_states{excluded=false} 5`,
		`kube_migrator_storage_states{excluded=true} 1`,
	}
	if diff := cmp.Diff(want, samples(t, registry)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	for n := range 2 * mostNamed {
		m.recorded(named(fmt.Sprintf("widgets.g%03d", n), stateThat(t, unknown)))
	}
	resources := map[string]bool{}
	got := samples(t, registry)
	for _, line := range got {
		if rest, ok := strings.CutPrefix(line, "kube_migrator_abnormal_resource{"); ok {
			resources[rest[strings.Index(rest, "resource="):]] = true
		}
	}
	if len(resources) != mostNamed || !slices.Contains(got,
		fmt.Sprintf(`kube_migrator_abnormal_storage_states{reason=unknown} %d`, 2+2*mostNamed)) {
		t.Errorf("%d resources are named, want %d, and all are counted", len(resources), mostNamed)
	}
}

func TestLooksAreCountedByTheirResult(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	m.begin()
	m.looked(noon, noon.Add(time.Second), true, errors.New("not all was written"))
	m.looked(noon, noon.Add(time.Second), false, nil)
	if got := samples(t, registry); slices.ContainsFunc(got, func(line string) bool {
		return strings.Contains(line,
			"last_complete")
	}) {
		t.Errorf("no look was complete, and %q", got)
	}
	m.looked(noon, noon.Add(2*time.Second), true, nil)
	m.looked(noon.Add(time.Hour), noon.Add(time.Hour), false, nil)
	got := samples(t, registry)
	for _, want := range []string{
		`kube_migrator_looks_total{result=complete} 1`, `kube_migrator_looks_total{result=failed} 1`,
		`kube_migrator_looks_total{result=incomplete} 2`,
		`kube_migrator_look_duration_seconds{} 4 4`,
		fmt.Sprintf(`kube_migrator_last_complete_look_timestamp_seconds{} %d`, noon.Unix()+2),
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing among %q", want, got)
		}
	}
}

// registrations are the names of all metrics that are registered, whether or not they have a sample.
type registrations struct {
	*prometheus.Registry
	names []string
}

func (r *registrations) Register(c prometheus.Collector) error {
	described := make(chan *prometheus.Desc, 100)
	c.Describe(described)
	close(described)
	for d := range described {
		r.names = append(r.names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	return r.Registry.Register(c)
}

func TestMetricsFollowTheConventionsAndAreThoseThatAreDocumented(t *testing.T) {
	registry := &registrations{Registry: prometheus.NewPedanticRegistry()} // refuses samples that are not described
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPermits(nil, access.Account{}, registry)
	if err != nil {
		t.Fatal(err)
	}
	p.forbidden.WithLabelValues("a").Set(1)
	m.begin()
	m.recorded(named("c", stateThat(t, unknown)))
	m.looked(noon, noon, true, nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v (%v)", problems, err)
	}
	raw, err := os.ReadFile("../../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, title := range []string{"StorageStates", "Looks"} {
		_, section, _ := strings.Cut(string(raw), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
			documented = append(documented, row[1])
		}
	}
	slices.Sort(registry.names)
	slices.Sort(documented)
	if diff := cmp.Diff(registry.names, documented); diff != "" {
		t.Errorf("docs/metrics.md (-registered +documented):\n%s", diff)
	}
}
