// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"
)

func TestTheWorstFindingDecides(t *testing.T) {
	a, b, c := Finding{Resource: "a", Verdict: Safe}, Finding{Resource: "b", Verdict: Undetermined},
		Finding{Resource: "c", Verdict: Unsafe}
	applying := question()
	applying.Applying = true
	for name, test := range map[string]struct {
		question    Question
		findings    []Finding
		understated []Understatement
		scope       Scope
		verdict     Verdict
		sentence    string
	}{
		"all safe": {question(), []Finding{a}, nil, Scope{}, Safe,
			"An upgrade is safe now: everything is stored in the version that the API servers write."},
		"what is named is safe": {question(), []Finding{a}, nil, Scope{Named: true}, Safe,
			"An upgrade is safe now: everything of a is stored in the version that the API servers write."},
		"one unknown": {question(), []Finding{a, b}, nil, Scope{}, Undetermined,
			"Whether an upgrade is safe cannot be determined for b."},
		"one unsafe": {question(), []Finding{a, b, c}, nil, Scope{NotLookedAt: []string{"x"}}, Unsafe,
			"An upgrade is not safe now: c."},
		"a part not read": {question(), []Finding{a}, nil, Scope{NotLookedAt: []string{"x"}}, Undetermined,
			"Whether an upgrade is safe cannot be determined: a part of the cluster could not be read."},
		"a resource left out": {question(), []Finding{a}, nil, Scope{Excluded: []string{"x"}}, Safe,
			"An upgrade is safe now: everything is stored in the version that the API servers write. Not judged, " +
				"because the installation excludes them: x."},
		"a record that is less": {question(), []Finding{a}, []Understatement{{}}, Scope{}, Unsafe,
			"An upgrade is not safe now: a record claims less than etcd holds."},
		"a target": {going(t, "1.36"), []Finding{a}, nil, Scope{}, Safe,
			"Going to Kubernetes 1.36 is safe now: it can decode everything that is stored."},
		"an unsafe target": {going(t, "1.36"), []Finding{c}, nil, Scope{}, Unsafe,
			"Going to Kubernetes 1.36 is not safe now: c."},
		"CRDs": {applying, []Finding{a}, nil, Scope{}, Safe,
			"Applying is safe: every stored version stays readable."},
		"an unsafe definition": {applying, []Finding{c, c}, nil, Scope{}, Unsafe, "Applying is not safe: c."},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.question.Conclude(test.findings, test.understated, test.scope)
			if r.Verdict != test.verdict || r.Sentence != test.sentence {
				t.Errorf("got %s, %q, want %s, %q", r.Verdict, r.Sentence, test.verdict, test.sentence)
			}
		})
	}
	if r := question().Conclude([]Finding{a, b, c}, nil, Scope{}); r.Findings[0].Resource != "c" ||
		r.Findings[2].Resource != "a" {
		t.Errorf("the unsafe come first, then the unknown: %+v", r.Findings)
	}
}
