// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// facts are those of a CRD whose versions are given as "name", "name/served", "name/served/storage".
func facts(stored string, versions ...string) retire.Facts {
	d := new(crd.CRD)
	d.Metadata.Name, d.Metadata.UID, d.Spec.Group, d.Spec.Names.Plural = "widgets.demo.example.com", "uid",
		"demo.example.com", "widgets"
	d.Spec.Scope = "Namespaced"
	d.Status.Conditions = []crd.Condition{{Type: "Established", Status: "True"}}
	d.Status.StoredVersions = strings.Fields(stored)
	for _, v := range versions {
		name, rest, _ := strings.Cut(v, "/")
		d.Spec.Versions = append(d.Spec.Versions,
			crd.Version{Name: name, Served: strings.Contains(rest, "served"),
				Storage: strings.Contains(rest, "storage")})
	}
	return retire.Facts{CRD: d, Objects: 20}
}

func with(f retire.Facts, change func(*retire.Facts)) retire.Facts {
	change(&f)
	return f
}

const gone = `the objects cannot be listed: request to convert CR from an invalid group/version: demo.example.com/v1, for the object "a"`

// situations are a question and what was found, with the reason for a refusal; empty for none.
var situations = map[string]struct {
	intent retire.Intent
	facts  retire.Facts
	want   refusal.Reason
}{
	"the old version is retired": {
		retire.Intent{Version: "v1", Unserve: true, Remove: true},
		with(facts("v1 v2", "v1/served", "v2/served/storage"), func(f *retire.Facts) {
			f.Owners = retire.Owners{Objects: 3, Managers: []retire.Manager{{Name: "kubectl",
				Operation: "Apply", Objects: 3}}}
		}), "",
	},
	"nothing but storing is changed without flags": {retire.Intent{Version: "v1"},
		facts("v2", "v1/served", "v2/served/storage"), ""},
	"a version that is not served is removed": {retire.Intent{Version: "v1", Remove: true},
		facts("v2", "v1", "v2/served/storage"), ""},
	"a version that was removed by us is found done": {
		retire.Intent{Version: "v1", Remove: true},
		with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Attempted = []string{"v0", "v1"} }), "",
	},
	"a version that was never there is not found removed": {retire.Intent{Version: "v9",
		Remove: true}, with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Attempted = []string{"v1"} }),
		retire.UnknownVersion},
	"a stranded version is rescued": {retire.Intent{Version: "v1",
		Rescue: true}, with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Unreadable = gone }), ""},
	"a rescue goes on": {retire.Intent{Version: "v1",
		Rescue: true}, facts("v2 v1", "v2/served/storage", "v1"), ""},
	"a rescue that ended is found done": {retire.Intent{Version: "v1",
		Rescue: true}, with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Attempted = []string{"v1"} }), ""},
	"a version that was never there needs no rescue": {retire.Intent{Version: "v9",
		Rescue: true}, facts("v2", "v2/served/storage"), retire.UnknownVersion},
	"a version that was never there is not rescued while a webhook is down": {retire.Intent{Version: "v9",
		Rescue: true}, with(facts("v2", "v1/served", "v2/served/storage"),
		func(f *retire.Facts) { f.Unreadable = "conversion webhook failed" }), retire.Unreadable},
	"the storage version": {retire.Intent{Version: "v2", Unserve: true},
		facts("v1 v2", "v1/served", "v2/served/storage"), retire.StorageVersion},
	"the only version": {retire.Intent{Version: "v1"}, facts("v1", "v1/served/storage"), retire.OnlyVersion},
	"a version that the CRD does not have": {retire.Intent{Version: "v9"},
		facts("v2", "v1/served", "v2/served/storage"), retire.UnknownVersion},
	"another version is stored that no one can read": {retire.Intent{Version: "v1"},
		facts("v0 v1 v2", "v1/served", "v2/served/storage"), retire.StoredUnknown},
	"removed while it is served": {retire.Intent{Version: "v1", Remove: true},
		facts("v1 v2", "v1/served", "v2/served/storage"), retire.StillServed},
	"no other version is served": {retire.Intent{Version: "v1", Unserve: true},
		facts("v1 v2", "v1/served", "v2/storage"), retire.NothingServed},
	"someone else migrates": {retire.Intent{Version: "v1"},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Running = []string{"storageversionmigration.migration.k8s.io/w"} }),
		retire.MigrationRuns},
	"another process of this machine migrates": {retire.Intent{Version: "v1"},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Running = []string{retire.ThisMachine} }), retire.MigrationRuns},
	"objects cannot be read": {retire.Intent{Version: "v2"},
		with(facts("v3", "v2/served", "v3/served/storage"),
			func(f *retire.Facts) { f.Unreadable = gone }), retire.Unreadable},
	"a conversion webhook does not answer": {retire.Intent{Version: "v1"},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Unreadable = "conversion webhook for demo.example.com/v2, Kind=Widget failed" }),
		retire.Unreadable},
	"objects are stranded by the version that is gone": {retire.Intent{Version: "v1", Remove: true},
		with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Unreadable = gone }), retire.Unreadable},
	"managedFields name the version that is gone": {retire.Intent{Version: "v1", Remove: true},
		with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Owners.Objects = 1 }), retire.Unreadable},
	"a version that was never removed is not removed by a rescue": {retire.Intent{Version: "v1", Rescue: true},
		facts("v2", "v1", "v2/served/storage"), retire.NotStranded},
	"a rescue that we began goes on after storedVersions was pruned": {
		retire.Intent{Version: "v1", Rescue: true},
		with(facts("v2", "v1", "v2/served/storage"), func(f *retire.Facts) { f.Attempted = []string{"v1"} }), "",
	},
	"another process of this machine migrates what is to be removed": {
		retire.Intent{Version: "v1", Unserve: true, Remove: true},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Running = []string{retire.ThisMachine} }), retire.MigrationRuns,
	},
	"a version that is served needs no rescue": {retire.Intent{Version: "v1", Rescue: true},
		facts("v2", "v1/served", "v2/served/storage"), retire.NotStranded},
	"another version is to be rescued than the one that is missing": {
		retire.Intent{Version: "v9", Rescue: true},
		with(facts("v2", "v2/served/storage"), func(f *retire.Facts) { f.Unreadable = gone }), retire.Unreadable,
	},
	"dependents keep the version served": {retire.Intent{Version: "v1", Unserve: true, Remove: true}, owning(2),
		retire.HasDependents},
	"dependents are reported where nothing is unserved": {retire.Intent{Version: "v1"}, owning(2), ""},
	"dependents are moved":                              {retire.Intent{Version: "v1", Unserve: true, FixOwners: true}, owning(5), ""},
	"dependents are left on request": {retire.Intent{Version: "v1", Unserve: true, LeaveOwners: true},
		with(owning(2), forbidSecrets), ""},
	"references are looked for again where none was found": {retire.Intent{Version: "v1", FixOwners: true},
		owning(0), ""},
	"dependents of a version that is not served any more do not keep it": {
		retire.Intent{Version: "v1", Remove: true},
		with(owning(2), func(f *retire.Facts) { f.CRD.Spec.Versions[0].Served = false }), "",
	},
	"dependents of a version that is gone are moved": {
		retire.Intent{Version: "v1", FixOwners: true},
		with(owning(2), func(f *retire.Facts) { f.CRD.Spec.Versions = f.CRD.Spec.Versions[1:] }), "",
	},
	"dependents of a version that is gone are reported": {
		retire.Intent{Version: "v1", Remove: true},
		with(owning(2), func(f *retire.Facts) {
			f.CRD.Spec.Versions, f.Attempted = f.CRD.Spec.Versions[1:], []string{"v1"}
		}), retire.HasDependents,
	},
	"there may be dependents that the user may not list": {retire.Intent{Version: "v1", Unserve: true},
		with(owning(0), forbidSecrets), retire.UnreadOwners},
	"there may be dependents that the user may not list, and nothing is unserved": {retire.Intent{Version: "v1"},
		with(owning(0), forbidSecrets), ""},
	"there may be dependents in a group that does not answer": {
		retire.Intent{Version: "v1", Unserve: true, FixOwners: true},
		with(owning(2), func(f *retire.Facts) {
			f.Dependents.Unread = []retire.Unread{{Resource: "metrics.example.com/v1", Reason: "it does not answer"}}
		}), retire.UnreadOwners,
	},
	"objects would lose a field": {retire.Intent{Version: "v1", Unserve: true},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Losses.Refused = losing("a", "spec.legacy") }), retire.FieldLoss},
	"objects lose a field that may be lost": {retire.Intent{Version: "v1", AcceptFieldLoss: []string{"spec.legacy"}},
		with(facts("v1 v2", "v1/served", "v2/served/storage"),
			func(f *retire.Facts) { f.Losses.Accepted = losing("a", "spec.legacy") }), ""},
	"objects would lose a field, and nothing has to be rewritten": {
		retire.Intent{Version: "v1", Remove: true},
		with(facts("v2", "v2/served/storage"), func(f *retire.Facts) {
			f.Attempted, f.Losses.Refused = []string{"v1"}, losing("a", "spec.legacy")
		}), "",
	},
	"dependents would lose a field": {retire.Intent{Version: "v1", FixOwners: true},
		with(owning(2), func(f *retire.Facts) { f.Dependents.Resources[0].Losses = losing("a", "spec.b", "spec.list[].b") }),
		retire.FieldLoss},
	"the CRD is being deleted": {retire.Intent{Version: "v1"}, with(facts("v1 v2", "v1/served", "v2/served/storage"), func(f *retire.Facts) {
		f.CRD.Status.Conditions = []crd.Condition{{Type: "Terminating", Status: "True",
			Message: "CustomResource deletion is in progress"}}
	}), retire.NotEstablished},
}

// losing is an object that would lose fields.
func losing(name string, fields ...string) (losses pruning.Losses) {
	losses.Add(&metav1.ObjectMeta{Namespace: "default", Name: name}, fields)
	return losses
}

// owning are facts about two versions that are served, and about Deployments that name v1 as the version of their owner.
func owning(dependents int64) retire.Facts {
	f := facts("v2", "v1/served", "v2/served/storage")
	if dependents > 0 {
		at := retire.Resource{Namespaced: true, GroupVersionResource: schema.GroupVersionResource{Group: "apps",
			Version: "v1", Resource: "deployments"}}
		f.Dependents = retire.Dependents{Objects: dependents, Resources: []retire.Dependent{
			{Resource: "deployments.apps", Objects: dependents, Names: []string{"a/x", "a/y"}, At: at},
		}}
	}
	return f
}

func forbidSecrets(f *retire.Facts) {
	lacking := access.ForbiddenError{Permission: access.Permission{Verb: "list", Namespaced: true,
		Resource: schema.GroupResource{Resource: "secrets"}}}
	f.Dependents.Unread = []retire.Unread{
		{Resource: "secrets", Reason: lacking.Error(), Try: lacking.Try()}, {Resource: "pods", Reason: "another"},
	}
}

func TestAPlanIsMadeOrRefusedWithAReasonAndACommand(t *testing.T) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(situations)) {
		s := situations[name]
		q := s.intent
		q.Program = "kube-migrator"
		plan, err := q.Decide(s.facts)
		fmt.Fprintf(&b, "%s\n", name)
		refused := (*refusal.Error)(nil)
		switch {
		case errors.As(err, &refused):
			fmt.Fprintf(&b, "  refused: %s: %s\n  Try: %s\n", refused.Reason, refused.Message, refused.Try)
			if refused.Reason != s.want || len(plan.Steps) != 0 {
				t.Errorf("%s: refused for %s, want %q", name, refused.Reason, s.want)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case s.want != "":
			t.Errorf("%s: not refused, want %s", name, s.want)
		}
		for _, p := range plan.Permissions(s.facts) {
			fmt.Fprintf(&b, "  asks %s\n", (&access.ForbiddenError{Permission: p}).Try())
		}
		for _, step := range plan.Steps {
			fmt.Fprintf(&b, "  %-13s %-8s %s\n", step.Name, step.State, step.What)
		}
	}
	golden.Compare(t, "testdata/plans.txt", b.String())
}
