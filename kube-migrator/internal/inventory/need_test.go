// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// custom is a custom resource; the first served version is the preferred one.
func custom(name, storage string, served, stored []string) Resource {
	r := Resource{
		GroupResource:  schema.GroupResource{Group: "demo.example.com", Resource: name},
		StorageVersion: schema.GroupVersion{Group: "demo.example.com", Version: storage},
		CRD:            &CRD{StorageVersion: storage, StoredVersions: stored},
	}
	for _, version := range served {
		r.Versions = append(r.Versions, Version{Name: version})
	}
	return r
}

func builtIn(name, storage string, served ...string) Resource {
	r := custom(name, storage, served, nil)
	r.CRD = nil
	return r
}

func TestResourcesAreOrderedByRisk(t *testing.T) {
	impossible := custom("impossible", "v2", []string{"v2"}, []string{"v1", "v2"})
	impossible.Problem = &Problem{Reason: NotPatchable}
	want := []Resource{
		custom("claims-unserved", "v2", []string{"v2"}, []string{"v1", "v2"}),
		custom("claims-alpha", "v2", []string{"v2", "v1alpha1"}, []string{"v1alpha1", "v2"}),
		custom("claims-served", "v2", []string{"v2", "v1"}, []string{"v1", "v2"}),
		builtIn("serves-alpha", "v1", "v1", "v1alpha1"),
		builtIn("serves-beta", "v1", "v1", "v1beta1"),
		builtIn("stores-beta", "v1beta1", "v1beta1"),
		builtIn("stores-the-next", "v1", "v2", "v1"),
		builtIn("a-stable", "v1", "v1"),
		builtIn("b-stable", "v1", "v1"),
		impossible,
	}
	shuffled := slices.Clone(want)
	slices.Reverse(shuffled)
	if diff := cmp.Diff(names(want), names(ByRisk(shuffled))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if shuffled[0].Resource != "impossible" {
		t.Error("the argument was changed")
	}
}

func TestTheNeedOfAMigrationFollowsFromWhatIsRecorded(t *testing.T) {
	with := func(r Resource, reason ProblemReason) Resource {
		r.Problem = &Problem{reason, "because"}
		return r
	}
	none, some := &Objects{}, &Objects{Count: 3}
	old := custom("widgets", "v2", []string{"v2", "v1"}, []string{"v1", "v2"})
	clean := custom("widgets", "v2", []string{"v2", "v1"}, []string{"v2"})
	for name, test := range map[string]struct {
		resource Resource
		objects  *Objects
		want     Need
	}{
		"a CRD that claims an old version": {old, some,
			Need{Needed, "stored versions claim v1 too"}},
		"an old version is claimed, but no object is there": {old, none,
			Need{Needed, "stored versions claim v1 too, though there are no objects"}},
		"an old version is claimed, and the objects cannot be counted": {old, nil,
			Need{Needed, "stored versions claim v1 too"}},
		"an old version is claimed, but it cannot be migrated": {with(old, NotServed), nil,
			Need{Needed, "stored versions claim v1 too; but cannot: because"}},
		"a CRD that claims the storage version only": {clean, some,
			Need{NotNeeded, "stored versions claim v2 only"}},
		"a clean definition that cannot be migrated": {with(clean, NotServed), nil, Need{NotNeeded, "cannot: because"}},
		"a CRD that claims nothing yet": {custom("widgets", "v2", nil, nil), some,
			Need{Undetermined, "its CustomResourceDefinition claims no stored version yet"}},
		"a built-in resource": {builtIn("pods", "v1", "v1"), some,
			Need{Undetermined, "nothing records what is stored; audit reads it from etcd, and migrate makes it current"}},
		"a built-in resource without objects": {builtIn("pods", "v1", "v1"), none,
			Need{NotNeeded, "there are no objects"}},
		"a built-in resource that cannot be counted": {builtIn("pods", "v1", "v1"), nil,
			Need{Undetermined, "nothing records what is stored; audit reads it from etcd, and migrate makes it current"}},
		"a resource that cannot be patched": {with(builtIn("pods", "v1"), NotPatchable), nil,
			Need{Undetermined, "cannot: because"}},
		"a resource that is not stored": {with(builtIn("reviews", ""), NotPersisted), nil, Need{NotNeeded, "because"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.resource.Need(test.objects)); diff != "" {
				t.Errorf("need (-want +got):\n%s", diff)
			}
		})
	}
}
