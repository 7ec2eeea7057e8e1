// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdupgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

func TestManagedFieldsTellWhichObjectsHaveAField(t *testing.T) {
	entry := func(version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{APIVersion: "demo.example.com/" + version,
			FieldsV1: metav1.NewFieldsV1(fields)}
	}
	for name, test := range map[string]struct {
		path    string
		entries []metav1.ManagedFieldsEntry
		want    presence
	}{
		"it is there": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{"f:color":{}}}`)}, present},
		"it is there with fields below it": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{"f:color":{"f:hue":{}}}}`)}, present},
		"it is not there": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{"f:size":{}}}`)}, absent},
		"nothing but the parent": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{".":{},"f:size":{}}}`)}, absent},
		"its parent is owned as a whole": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{}}`)}, possible},
		"another manager has it": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:status":{"f:phase":{}}}`),
				entry("v1", `{"f:spec":{"f:color":{}}}`)}, present},
		"of a version that is not its own": {"spec color",
			[]metav1.ManagedFieldsEntry{entry("v2", `{"f:spec":{"f:color":{}}}`)}, present},
		"there are no managedFields": {"spec color", nil, possible},
		"in an item of a list with keys": {"rules [] name",
			[]metav1.ManagedFieldsEntry{
				entry("v1", `{"f:rules":{"k:{\"id\":1}":{".":{},"f:id":{}},"k:{\"id\":2}":{".":{},"f:name":{}}}}`),
			}, present},
		"in no item of it": {"rules [] name",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:rules":{"k:{\"id\":1}":{".":{},"f:id":{}}}}`)}, absent},
		"in a list that is owned as one": {"rules [] name",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:rules":{}}`)}, possible},
		"a key that no schema names": {"spec labels *",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{"f:labels":{"f:app":{}}}}`)}, present},
		"a map without any key": {"spec labels *",
			[]metav1.ManagedFieldsEntry{entry("v1", `{"f:spec":{"f:labels":{".":{}}}}`)}, possible},
		"managedFields that cannot be read": {"spec color", []metav1.ManagedFieldsEntry{entry("v1", `{`)}, possible},
	} {
		t.Run(name, func(t *testing.T) {
			f := Found{Naming: map[string]int64{}, Losses: []Loss{{path: pruning.Path(strings.Fields(test.path))}}}
			f.add("demo.example.com", test.entries)
			want := Loss{path: f.Losses[0].path}
			switch test.want {
			case present:
				want.Objects = 1
			case possible:
				want.Possibly = 1
			case absent:
			}
			if diff := cmp.Diff(want, f.Losses[0], cmp.AllowUnexported(Loss{})); diff != "" {
				t.Errorf("count (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnObjectNamesEachVersionOnce(t *testing.T) {
	f := Found{Naming: map[string]int64{}}
	f.add("demo.example.com", []metav1.ManagedFieldsEntry{
		{APIVersion: "demo.example.com/v1", Manager: "a"}, {APIVersion: "demo.example.com/v1", Manager: "b"},
		{APIVersion: "demo.example.com/v2"},
		{APIVersion: "other.example.com/v3"}, {APIVersion: "v1"},
	})
	f.add("demo.example.com", nil)
	if diff := cmp.Diff(Found{Objects: 2, Naming: map[string]int64{"v1": 1, "v2": 1}}, f,
		cmp.AllowUnexported(Loss{})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestALossIsShownWithItsCount(t *testing.T) {
	for want, l := range map[string]Loss{
		"spec.a of v1 (0 objects)":          {Version: "v1", Field: "spec.a"},
		"spec.a of v1 (1 object)":           {Version: "v1", Field: "spec.a", Objects: 1},
		"spec.a of v1 (at most 2 objects)":  {Version: "v1", Field: "spec.a", Possibly: 2},
		"spec.a of v1 (1 to 3 objects)":     {Version: "v1", Field: "spec.a", Objects: 1, Possibly: 2},
		"spec[].a of v1 (12 to 14 objects)": {Version: "v1", Field: "spec[].a", Objects: 12, Possibly: 2},
	} {
		if got := l.String(); got != want {
			t.Errorf("shown as %q, want %q", got, want)
		}
	}
}
