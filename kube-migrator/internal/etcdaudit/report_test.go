// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// generated is a source without an etcd.
type generated func(visit func(key, value string) error) error

func (g generated) Each(_ context.Context, _ string, visit func(key, value []byte) error) (Provenance, error) {
	return Provenance{Revision: 1}, g(func(key, value string) error { return visit([]byte(key), []byte(value)) })
}

func TestAReportDoesNotGrowWithKeysThatAreNotThoseOfAnAPIServer(t *testing.T) {
	const keys = 3 * maxRows
	report, err := Audit(t.Context(), generated(func(visit func(key, value string) error) error {
		for i := range keys {
			if err := visit(fmt.Sprintf("/registry/g%d.example.com/things/a", i), "?"); err != nil {
				return err
			}
		}
		return nil
	}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Rows) > maxRows+5 || report.Totals.Objects != keys {
		t.Errorf("%d rows for %d objects, want at most %d for %d", len(report.Rows),
			report.Totals.Objects, maxRows+5, keys)
	}
}

func TestTotalsAndComparisonFollowFromTheRows(t *testing.T) {
	const v1, v2 = `{"apiVersion":"demo.example.com/v1","kind":"Widget"}`, `{"apiVersion":"demo.example.com/v2","kind":"Widget"}`
	const widgets, secrets = "/registry/demo.example.com/widgets/ns/", "/registry/secrets/ns/"
	for name, test := range map[string]struct {
		current    string
		values     map[string]string
		totals     Totals
		comparison Comparison
	}{
		"one stale object makes it stale": {
			"{widgets.demo.example.com: v2, secrets: v1}",
			map[string]string{widgets + "a": v1, widgets + "b": v2, secrets + "c": "k8s:enc:aescbc:v1:k:x"},
			Totals{Objects: 3, Bytes: 125, Current: 1, Stale: 1, Undetermined: 1}, IsStale,
		},
		"one encrypted object keeps it open": {
			"{widgets.demo.example.com: v2, secrets: v1}",
			map[string]string{widgets + "b": v2, secrets + "c": "k8s:enc:aescbc:v1:k:x",
				"/registry/ranges/serviceips": "x"},
			Totals{Objects: 2, Bytes: 73, Current: 1, Undetermined: 1, NoObjects: 1}, IsUndetermined,
		},
		"all that was asked about is current": {
			"{widgets.demo.example.com: v2}",
			map[string]string{widgets + "b": v2, secrets + "c": "k8s:enc:aescbc:v1:k:x"},
			Totals{Objects: 2, Bytes: 73, Current: 1, NotCompared: 1}, IsCurrent,
		},
		"nothing that was asked about is there": {
			"{gadgets: v2}", map[string]string{widgets + "b": v2},
			Totals{Objects: 1, Bytes: 52, NotCompared: 1}, NotCompared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			current, err := ParseCurrent([]byte(test.current))
			if err != nil {
				t.Fatal(err)
			}
			report, err := Audit(t.Context(), generated(func(visit func(key, value string) error) error {
				for key, value := range test.values {
					if err := visit(key, value); err != nil {
						return err
					}
				}
				return nil
			}), Options{Current: current})
			if err != nil {
				t.Fatal(err)
			}
			if report.Totals != test.totals || report.Comparison() != test.comparison {
				t.Errorf("got %+v and %s, want %+v and %s", report.Totals, report.Comparison(),
					test.totals, test.comparison)
			}
		})
	}
}

func TestAnErrorWhileAStaleObjectIsWrittenEndsTheAudit(t *testing.T) {
	stop := errors.New("stop")
	_, err := Audit(t.Context(), generated(func(visit func(key, value string) error) error {
		return visit("/registry/demo.example.com/widgets/ns/a", `{"apiVersion":"demo.example.com/v1","kind":"Widget"}`)
	}), Options{
		Current: parsed(ParseCurrent([]byte("widgets.demo.example.com: v2"))),
		OnStale: func(o StaleObject) error {
			if o.Namespace != "ns" || o.Name != "a" || o.CurrentVersion != "demo.example.com/v2" {
				return fmt.Errorf("unexpected %+v", o)
			}
			return stop
		},
	})
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func parsed(current *Current, err error) *Current {
	if err != nil {
		panic(err)
	}
	return current
}
