// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestARunThatLeftObjectsAloneSaysHowToDecide(t *testing.T) {
	err := fmt.Errorf("%w: 2", migrate.ErrWouldLoseFields)
	if got := resultOf(err); got != ResultWouldLoseFields {
		t.Errorf("result %q, want %q", got, ResultWouldLoseFields)
	}
	got := wouldLose(migrate.Counts{Rewritten: 3, Failed: 2, WouldLoseFields: 2}, []migrate.Failure{{Namespace: "d",
		Name: "a", Reason: migrate.WouldLoseFields, Message: "the API server would drop spec.b"}},
		schema.ParseGroupResource("widgets.demo.example.com"))
	want := "2 of 5 objects were left alone because they would lose fields, the first: d/a: WouldLoseFields: the API " +
		"server would drop spec.b; correct the schema of the CustomResourceDefinition, or accept the loss of each " +
		"field: kube-migrator request widgets.demo.example.com --accept-field-loss=FIELD"
	if got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestWhatWorkersMayNotMigrateOnPurposeNamesTheWayOut(t *testing.T) {
	err := fmt.Errorf("%w: cannot patch it", migrate.ErrForbidden)
	for name, want := range map[string]string{
		"widgets.demo.example.com": "forbidden: cannot patch it",
		"validatingadmissionpolicies.admissionregistration.k8s.io": "forbidden: cannot patch it; no " +
			"admission policy can guard this resource, so an administrator migrates it: " +
			"kube-migrator migrate validatingadmissionpolicies.admissionregistration.k8s.io",
	} {
		if got := forbidden(err, schema.ParseGroupResource(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestAFailureIsNamedWithItsNamespaceInOneLine(t *testing.T) {
	f := migrate.Failure{Namespace: "d", Name: "a\u00a0\x1b[2J", Reason: migrate.Rejected, Message: "no\ncolor"}
	if got, want := describe(f), `d/"a\u00a0\x1b[2J": Rejected: no color`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The ConfigMap of a run has room for the names of twenty failures, whatever they are.
func TestAReportNamesFailuresUpToALength(t *testing.T) {
	long := strings.Repeat("é", 2000)
	got := named(slices.Repeat([]migrate.Failure{{Namespace: long, Name: long, Message: long}}, 30))
	if len(got) != maxReportedFailures {
		t.Fatalf("%d failures, want %d", len(got), maxReportedFailures)
	}
	want := strings.Repeat("é", 252) + "…"
	if f := got[19]; f.Namespace != want || f.Name != want || f.Message != strings.Repeat("é", 1023)+"…" {
		t.Errorf("%+v, want all of it cut", f)
	}
	if f := named([]migrate.Failure{{Namespace: "d", Name: "a\u00a0b"}})[0]; f.Namespace != "d" || f.Name != "a\u00a0b" {
		t.Errorf("%+v, want the name as it is", f)
	}
}
