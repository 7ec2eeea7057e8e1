// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
)

// The entry of a crashed API server may be the only trace of what it wrote.
func TestAStorageVersionIsCoveredOnceItsRecordIsWritten(t *testing.T) {
	gears := schema.GroupResource{Group: "demo.example.com", Resource: "gears"}
	alias := schema.GroupResource{Group: "old.example.com", Resource: "gears"}
	one := &resource{names: []string{gears.String(), alias.String()}}
	look := func(state string) *observation {
		return &observation{round: &agreement.Round{Verdicts: []agreement.Verdict{
			{Resource: gears, Published: state}, {Resource: alias, Published: state + "0"},
			{Resource: schema.GroupResource{Resource: "pods"}},
		}}}
	}
	covered := new(Covered)
	expect := func(what string, resource schema.GroupResource, state string, want bool) {
		t.Helper()
		if got := covered.Has(resource, state); got != want {
			t.Errorf("%s: %s is covered: %t", what, state, got)
		}
	}
	expect("nothing was looked at", gears, "u/1", false)
	covered.add(look("u/1"), []entryPlan{{resource: one, failed: true}})
	expect("the record could not be written", gears, "u/1", false)
	covered.add(look("u/1"), []entryPlan{{resource: one}})
	expect("the record was written", gears, "u/1", true)
	expect("another name of the resource", alias, "u/10", true)
	expect("the object has changed since", gears, "u/2", false)
	covered.add(look("u/2"), []entryPlan{{resource: one, failed: true}})
	expect("the record of a change could not be written", gears, "u/2", false)
	expect("the earlier state is recorded still", gears, "u/1", true)
	expect("a resource that is not published", schema.GroupResource{Resource: "pods"}, "", false)
	covered.add(look(""), nil)
	expect("the object is gone", gears, "u/1", false)
}
