// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

func row(resource, apiVersion string, verdict etcdaudit.Comparison, objects int64) etcdaudit.Row {
	return etcdaudit.Row{Resource: resource, APIVersion: apiVersion, Comparison: verdict, Objects: objects}
}

// report makes a report of rows with the totals that the demo uses.
func report(revision int64, rows ...etcdaudit.Row) etcdaudit.Report {
	r := etcdaudit.Report{Rows: rows, Source: etcdaudit.Provenance{Revision: revision}}
	for _, row := range rows {
		r.Totals.Objects += row.Objects
		switch row.Comparison {
		case etcdaudit.IsStale:
			r.Totals.Stale += row.Objects
		case etcdaudit.IsUndetermined:
			r.Totals.Undetermined += row.Objects
		default:
			r.Totals.Current += row.Objects
		}
	}
	return r
}

const (
	widgetV1, widgetV2      = "demo.example.com/v1", "demo.example.com/v2"
	policyV1beta1, policyV1 = "admissionregistration.k8s.io/v1beta1", "admissionregistration.k8s.io/v1"
)

// complete is evidence of a migration in which everything went well.
func complete() *evidence {
	objects := func() map[string]testbed.Snapshot {
		return map[string]testbed.Snapshot{
			widgets:  {"/registry/w/a": {UID: "1"}, "/registry/w/b": {UID: "2"}},
			policies: {"/registry/p/a": {UID: "3"}},
		}
	}
	return &evidence{
		before: look{
			report: report(10, row(policies, policyV1beta1, etcdaudit.IsStale, 1),
				row("secrets", "v1", etcdaudit.IsCurrent, 7),
				row(widgets, widgetV1, etcdaudit.IsStale, 2)),
			storedVersions: []string{"v1", "v2"}, objects: objects(),
		},
		after: look{
			report: report(20, row(policies, policyV1, etcdaudit.IsCurrent, 1),
				row("secrets", "v1", etcdaudit.IsCurrent, 7),
				row(widgets, widgetV2, etcdaudit.IsCurrent, 2)),
			storedVersions: []string{"v2"}, objects: objects(),
		},
		listed: 2,
	}
}

func TestACompleteMigrationIsProven(t *testing.T) {
	e := complete()
	if problems := e.judge(); len(problems) > 0 {
		t.Errorf("problems: %q, want none", problems)
	}
	want := "Proven: etcd held 3 objects in old versions (2 widgets as v1, 1 mutatingadmissionpolicies as v1beta1) " +
		"and now holds none; " +
		"all 3 are still there with the same UID, generation, managedFields and content; and all 2 widgets are read " +
		"without v1."
	if diff := cmp.Diff(want, e.sentence()); diff != "" {
		t.Errorf("sentence (-want +got):\n%s", diff)
	}
}

func TestNothingIsProvenWhere(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(e *evidence)
		want  string
	}{
		"one object stayed in the old version": {
			func(e *evidence) {
				e.after.report = report(20, row(policies, policyV1, etcdaudit.IsCurrent, 1),
					row(widgets, widgetV1, etcdaudit.IsStale, 1), row(widgets, widgetV2, etcdaudit.IsCurrent, 1))
			}, "etcd still holds 1 objects in old versions",
		},
		"an object of another resource is old": {
			func(e *evidence) {
				e.after.report = report(20, append(e.after.report.Rows, row("things", "v1", etcdaudit.IsStale, 4))...)
			},
			"etcd still holds 4 objects in old versions",
		},
		"the version of an object cannot be told": {
			func(e *evidence) {
				e.after.report = report(20, row(policies, policyV1, etcdaudit.IsCurrent, 1),
					row(widgets, "", etcdaudit.IsUndetermined, 1), row(widgets, widgetV2, etcdaudit.IsCurrent, 1))
			}, "only 1 of 2 objects of widgets.demo.example.com are known to be in the current version",
		},
		"nothing was old to begin with": {
			func(e *evidence) { e.before.report = e.after.report }, "before the migration no object of " +
				"widgets.demo.example.com was in an old version",
		},
		"an object is gone": {
			func(e *evidence) {
				e.after.report = report(20, row(policies, policyV1, etcdaudit.IsCurrent, 1),
					row(widgets, widgetV2, etcdaudit.IsCurrent, 1))
			}, "widgets.demo.example.com had 2 objects before and 1 after",
		},
		"an object was changed": {
			func(e *evidence) { e.after.objects[widgets]["/registry/w/a"] = testbed.Object{UID: "1", Generation: 2} },
			"of widgets.demo.example.com 0 objects were created, 0 deleted, 1 changed",
		},
		"another object is in the place of one": {
			func(e *evidence) {
				delete(e.after.objects[policies], "/registry/p/a")
				e.after.objects[policies]["/registry/p/b"] = testbed.Object{}
			}, "1 objects were created, 1 deleted, 0 changed",
		},
		"not every object was compared": {
			func(e *evidence) {
				delete(e.before.objects[widgets], "/registry/w/a")
				delete(e.after.objects[widgets], "/registry/w/a")
			}, "the audit counts 2 objects of widgets.demo.example.com, but 1 were compared",
		},
		"the CRD still claims the old version": {
			func(e *evidence) { e.after.storedVersions = []string{"v1", "v2"} }, "claims that [v1 v2] are stored",
		},
		"not every object is listed without the old version": {
			func(e *evidence) { e.listed = 1 }, "etcd holds 2 widgets, but without v1 kubectl lists 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := complete()
			test.spoil(e)
			if problems := strings.Join(e.judge(), "; "); !strings.Contains(problems, test.want) {
				t.Errorf("problems: %q, want one that says %q", problems, test.want)
			}
		})
	}
}

func TestTheAuditsStandSideBySideWithTheOldVersionFirst(t *testing.T) {
	var b strings.Builder
	if err := complete().sideBySide(&b); err != nil {
		t.Fatal(err)
	}
	want := `IN ETCD                                                  STORED AS   BEFORE    AFTER
widgets.demo.example.com                                 v1          2         0
widgets.demo.example.com                                 v2          0         2
mutatingadmissionpolicies.admissionregistration.k8s.io   v1beta1     1         0
mutatingadmissionpolicies.admissionregistration.k8s.io   v1          0         1
all other resources                                      -           7         7
objects in old versions                                  -           3         0
objects whose version cannot be told                     -           0         0
storedVersions that widgets claim                        -           [v1 v2]   [v2]
read at revision of etcd                                 -           10        20
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}
