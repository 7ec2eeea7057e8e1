// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

const (
	alerts    = chart + "/files/alerts.yaml"
	dashboard = chart + "/files/dashboard.json"
	docs      = "../../../docs/"
)

// alert is what a rule of the file of alerts has.
type alert struct {
	Alert, Expr string
	Annotations map[string]string
}

func readAlerts(t *testing.T) []alert {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal([]byte(read(t, alerts)), &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("read the alerts: %v", err)
	}
	return file.Groups[0].Rules
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", alerts},
		{"test", "rules", filepath.Join("testdata", "alerts.yaml")},
	} {
		out, problems, err := run(t, testbed.Prometheus, "promtool", "", args...)
		if err != nil {
			t.Errorf("promtool %s: %v\n%s%s", strings.Join(args, " "), err, out, problems)
		}
	}
	tests := read(t, filepath.Join("testdata", "alerts.yaml"))
	for _, a := range readAlerts(t) {
		if !strings.Contains(tests, a.Alert) {
			t.Errorf("no test of promtool names the alert %s", a.Alert)
		}
	}
}

func TestTheRunbookHasEachAlertAndEachReason(t *testing.T) {
	t.Parallel()
	headings := map[string]bool{}
	for line := range strings.Lines(read(t, docs+"runbook.md")) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "### "); is {
			headings[name] = true
		}
	}
	for _, a := range readAlerts(t) {
		_, anchor, _ := strings.Cut(a.Annotations["runbook_url"], "docs/runbook.md#")
		if !headings[a.Alert] || anchor != strings.ToLower(a.Alert) {
			t.Errorf("the alert %s has the section %q of the runbook, which has %v", a.Alert, anchor, headings[a.Alert])
		}
		delete(headings, a.Alert)
	}
	for _, reason := range worker.Failures() {
		if !headings[string(reason)] {
			t.Errorf("the runbook lacks the reason %s", reason)
		}
		delete(headings, string(reason))
	}
	if len(headings) > 0 {
		t.Errorf("the runbook has sections about nothing that exists: %v", headings)
	}
}

var (
	metricName   = regexp.MustCompile(`\b(?:kube_migrator|storage_migrator)_\w+`)
	metricOfDocs = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
)

// Tests of the controllers compare docs/metrics.md with the metrics that are registered.
func TestAlertsAndTheDashboardUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	var exist []string
	for _, m := range metricOfDocs.FindAllStringSubmatch(read(t, docs+"metrics.md"), -1) {
		exist = append(exist, m[1])
	}
	var used []string
	for _, a := range readAlerts(t) {
		used = append(used, metricName.FindAllString(a.Expr, -1)...)
	}
	queries := expressions(t)
	for _, expr := range queries {
		used = append(used, metricName.FindAllString(expr, -1)...)
	}
	slices.Sort(used)
	for _, name := range slices.Compact(used) {
		if !slices.Contains(exist, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("%s is used, and docs/metrics.md does not have it", name)
		}
	}
	if len(exist) < 15 || len(used) < 15 {
		t.Errorf("found %d metrics, and %d uses of them", len(exist), len(used))
	}
	// Prometheus parses each query of the dashboard as the expression of a rule.
	rules := []map[string]any{}
	for _, expr := range queries {
		rules = append(rules, map[string]any{"record": "query:of:dashboard", "expr": expr,
			"labels": map[string]any{"of": expr}})
	}
	file := filepath.Join(t.TempDir(), "queries.yaml")
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, problems, err := run(t, testbed.Prometheus, "promtool", "", "check", "rules", file); err != nil {
		t.Errorf("%v\n%s%s", err, out, problems)
	}
}

// expressions returns the queries of the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboard)), &d); err != nil {
		t.Fatal(err)
	}
	for i, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
		if p.Title == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d lacks a title or a query, or is too wide: %+v", p.ID, p)
		}
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if p.ID == other.ID || a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("the panels %q and %q have one ID or lie on top of each other", p.Title, other.Title)
			}
		}
	}
	return all
}

func TestTheChartHasTheAlertsAndTheDashboardIfTheyAreEnabled(t *testing.T) {
	t.Parallel()
	objects := byName(t, rendered(t, "image: "+image+`
metrics:
  prometheusRule: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
`))
	rule, board := objects["PrometheusRule kube-migrator/kube-migrator"], objects["ConfigMap kube-migrator/kube-migrator-dashboard"]
	if rule == nil || board == nil || rule.GetLabels()["release"] != "prometheus" ||
		board.GetLabels()["grafana_dashboard"] != "1" {
		t.Fatalf("the chart has %v and %v", rule, board)
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(read(t, alerts)), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("the PrometheusRule (-file +chart):\n%s", diff)
	}
	if text, _, _ := unstructured.NestedString(board.Object, "data", "kube-migrator.json"); text+"\n" != read(t, dashboard) {
		t.Errorf("the dashboard of the chart is\n%.500s", text)
	}
	for name := range byName(t, rendered(t, "image: "+image+"\n")) {
		if strings.HasPrefix(name, "PrometheusRule") || strings.HasSuffix(name, "dashboard") {
			t.Errorf("by default the chart has %s", name)
		}
	}
}
