// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// owning returns managedFields in which a client has written fields of spec, at a version.
func owning(version string, fields ...string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{APIVersion: "demo.example.com/" + version,
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:` + strings.Join(fields, `":{},"f:`) + `":{}}}`)}}
}

// What an object loses depends on the schemas that it passes when it is written next, also within one version.
func TestAnUpgradeTakesWhatItsSchemasDoNotKeep(t *testing.T) {
	const both, narrower = "v1:served,storage v2:served", "v1:served,storage -color v2:served"
	for name, test := range map[string]struct {
		live, next string
		entries    []metav1.ManagedFieldsEntry
		lost       []string
		possible   []string
	}{
		"nothing changes":                           {both, both, owning("v1", "color"), nil, nil},
		"a field goes from the version that stays":  {both, narrower, owning("v1", "color"), []string{"spec.color"}, []string{"spec.color"}},
		"another field":                             {both, narrower, owning("v1", "size"), nil, []string{"spec.color"}},
		"no managedFields":                          {both, narrower, nil, []string{"spec.color"}, []string{"spec.color"}},
		"it was written at a version that keeps it": {both, narrower, owning("v2", "color"), []string{"spec.color"}, []string{"spec.color"}},
		"it was gone before":                        {narrower, narrower, owning("v1", "color"), nil, nil},
		"it was gone before, and the objects are rewritten": {"v1:served v2:served,storage -color",
			"v2:served,storage -color", owning("v1", "color"), []string{"spec.color"}, []string{"spec.color"}},
		"a webhook may move it": {"v1:served,storage", "v1:served v2:served,storage -color webhook", owning("v1", "size"), nil,
			[]string{"spec.color"}},
	} {
		t.Run(name, func(t *testing.T) {
			next, live := crdOf(t, test.next), crdOf(t, test.live)
			live.Status.StoredVersions = []string{"v1"}
			j := judgeOf(next, Facts{Live: live})
			if diff := cmp.Diff(test.lost, j.Lost(test.entries), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.possible, j.Possible(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("possible (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnObjectNamesEachVersionOnce(t *testing.T) {
	f, both := Found{Naming: map[string]int64{}}, crdOf(t, "v1:served,storage v2:served")
	j := judgeOf(both, Facts{Live: both})
	f.add(j, &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
		{APIVersion: "demo.example.com/v1", Manager: "a"}, {APIVersion: "demo.example.com/v1", Manager: "b"},
		{APIVersion: "demo.example.com/v2"},
		{APIVersion: "other.example.com/v3"}, {APIVersion: "v1"},
	}})
	f.add(j, new(metav1.ObjectMeta))
	if diff := cmp.Diff(Found{Objects: 2, Naming: map[string]int64{"v1": 1, "v2": 1}}, f); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}
