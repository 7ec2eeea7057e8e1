// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func TestStorageStatesSayWhatNeedsNoMigration(t *testing.T) {
	type states = map[string]*v1alpha1.StorageStateStatus
	pods := resourceAt("pods", "now")
	custom := func(stored ...string) inventory.Resource {
		r := pods
		r.CRD = &inventory.CRD{StorageVersion: "v2", StoredVersions: stored}
		return r
	}
	broken := custom("v2")
	broken.Problem = &inventory.Problem{Reason: inventory.NotServed}
	objects := &inventory.Objects{Count: 5}
	for name, test := range map[string]struct {
		resource inventory.Resource
		states   states
		want     inventory.Answer
		why      string
		current  bool
	}{
		"no StorageState": {pods, states{}, inventory.Undetermined,
			"nothing records what is stored; audit reads it from etcd, and migrate makes it current", false},
		"proven": {pods, states{"pods": stateOf("now", "now")}, inventory.NotNeeded,
			"everything is stored as v2", true},
		"Unknown": {pods, states{"pods": stateOf("now", "now", "Unknown")}, inventory.Undetermined,
			"its StorageState says Unknown: objects may be stored in versions that no one knows", false},
		"an old version": {pods, states{"pods": stateOf("now", "old", "now")}, inventory.Needed,
			"its StorageState says that objects may be stored as old, not only as v2", false},
		"Unknown next to a claim": {custom("v2"), states{"pods": stateOf("now", "now", "Unknown")},
			inventory.Undetermined, "its StorageState says Unknown: objects may be stored in versions that no one knows", false},
		"an old claim is left": {custom("v1", "v2"), states{"pods": stateOf("now", "now")}, inventory.Needed,
			"stored versions claim v1 too", false},
		"it cannot be migrated": {broken, states{"pods": stateOf("now", "old")},
			inventory.NotNeeded, "cannot: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := records.Recorded{Known: knownOf([]inventory.Resource{test.resource}, test.states),
				Question: upgrade.Question{Now: judged, Installed: true}}
			need := r.Need(test.resource, objects)
			if current := r.IsCurrent(test.resource); need.Answer != test.want || need.Why != test.why ||
				current != test.current {
				t.Errorf("%s (%s), current %t; want %s (%s), current %t", need.Answer, need.Why, current, test.want,
					test.why, test.current)
			}
		})
	}
}

func TestWhatIsCurrentIsSparedUnlessItIsNamedOrForced(t *testing.T) {
	at := func(name string) inventory.Resource {
		return inventory.Resource{GroupResource: schema.GroupResource{Resource: name}}
	}
	chosen, named := []inventory.Resource{at("current"), at("named"), at("stale")}, []inventory.Resource{at("named")}
	isCurrent := func(r inventory.Resource) bool { return r.Resource != "stale" }
	for force, want := range map[bool]int{false: 2, true: 3} {
		s := records.Selection{Force: force}
		needed, spared := s.Spare(chosen, named, isCurrent)
		if len(needed) != want || spared != len(chosen)-want || needed[want-1].Resource != "stale" {
			t.Errorf("force %t: %v, and %d spared", force, needed, spared)
		}
	}
}
