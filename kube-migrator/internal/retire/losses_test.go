// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// versionsOf is a CRD whose versions are given with the fields below spec that they have; * marks the storage version, and
// a version in parentheses is not served.
func versionsOf(plural string, versions ...[]string) map[string]any {
	var all []any
	for _, fields := range versions {
		name, storage := strings.CutSuffix(fields[0], "*")
		properties := map[string]any{}
		for _, f := range fields[1:] {
			properties[f] = map[string]any{"type": "string"}
		}
		all = append(all, map[string]any{"name": strings.Trim(name, "()"), "served": !strings.HasPrefix(name, "("),
			"storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object",
				"properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}}}}})
	}
	return map[string]any{"metadata": map[string]any{"name": plural + ".demo.example.com", "uid": "uid", "generation": 1},
		"spec": map[string]any{"group": "demo.example.com", "versions": all}}
}

// owned is an object that a client wrote in a version, with a reference to a widget at v1.
func owned(version string, fields ...string) map[string]any {
	spec := map[string]any{}
	for _, f := range fields {
		spec["f:"+f] = map[string]any{}
	}
	return map[string]any{"metadata": map[string]any{
		"name": "w", "namespace": "default", "uid": "u", "resourceVersion": "7",
		"ownerReferences": []any{map[string]any{"apiVersion": oldVersion, "kind": "Widget", "name": "o", "uid": "o"}},
		"managedFields": []any{map[string]any{"manager": "alice", "operation": "Update",
			"apiVersion": "demo.example.com/" + version, "fieldsType": "FieldsV1",
			"fieldsV1": map[string]any{"f:spec": spec}}},
	}}
}

// A patch of metadata stores the whole object again, under the schemas of its CRD (I3).
func TestAWriteThatWouldDropAFieldIsNotSent(t *testing.T) {
	for name, test := range map[string]struct {
		step     retire.StepName
		crd      map[string]any
		object   map[string]any
		accepted []string
		lost     string // the field, or empty if the object is written
		at       string // the version at which it is written
	}{
		"to managedFields": {retire.Owned, versionsOf("widgets", []string{"v1", "a", "b"}, []string{"v2*", "a"}),
			owned("v1", "a", "b"), nil, "spec.b", ""},
		"to managedFields of an object that has no such field": {retire.Owned,
			versionsOf("widgets", []string{"v1", "a", "b"}, []string{"v2*", "a"}), owned("v1", "a"), nil, "", "v2"},
		"to managedFields of an object whose field may be lost": {retire.Owned,
			versionsOf("widgets", []string{"v1", "a", "b"}, []string{"v2*", "a"}), owned("v1", "a", "b"),
			[]string{"spec.b"}, "", "v2"},
		"to ownerReferences under a schema that became narrower": {retire.Pointing,
			versionsOf("gizmos", []string{"v1*", "a"}), owned("v1", "b"), nil, "spec.b", ""},
		"to ownerReferences at a version that is not the storage version": {retire.Pointing,
			versionsOf("gizmos", []string{"v1", "a"}, []string{"(v2)*", "a", "b"}), owned("v2", "b"), nil, "spec.b", ""},
		"to ownerReferences at the storage version": {retire.Pointing,
			versionsOf("gizmos", []string{"v1", "a"}, []string{"v2*", "a", "b"}), owned("v2", "b"), nil, "", "v2"},
		"to ownerReferences of an object whose field may be lost": {retire.Pointing,
			versionsOf("gizmos", []string{"v1*", "a"}), owned("v1", "b"), []string{"*"}, "", "v1"},
		"to ownerReferences of an object that no CRD describes": {retire.Pointing, nil, owned("v1", "b"), nil, "", "v1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written, entries := "", ""
				client := answers(func(r *http.Request, body string) (int, any) {
					switch {
					case strings.Contains(r.URL.Path, "/customresourcedefinitions/") && test.crd == nil:
						return http.StatusNotFound, failure(http.StatusNotFound, "NotFound")
					case strings.Contains(r.URL.Path, "/customresourcedefinitions/"):
						return http.StatusOK, test.crd
					case r.Method == http.MethodPatch:
						written, entries = strings.Split(r.URL.Path, "/")[3], body
						return http.StatusOK, owned("v2")
					case written != "":
						return http.StatusOK, map[string]any{"items": []any{}}
					case strings.HasSuffix(r.URL.Path, "/w"):
						return http.StatusOK, test.object
					}
					return http.StatusOK, map[string]any{"items": []any{test.object}}
				}).client(t)
				run := &retire.Run{
					Client: client, CRD: facts("v1 v2", "v1", "v2/served/storage").CRD,
					Intent:  retire.Intent{Version: "v1", FixOwners: true, AcceptFieldLoss: test.accepted},
					Stopped: func() error { return nil }, Report: func(retire.Step) {},
					Settle: func(context.Context, int64) error { return nil },
					Resources: []retire.Resource{{GroupVersionResource: schema.GroupVersionResource{
						Group: "demo.example.com", Version: "v1", Resource: "gizmos"}, Namespaced: true}},
				}
				run.CRD.Spec.Names.Kind = "Widget"

				_, err := run.Do(t.Context(), retire.Plan{Steps: []retire.Step{{Name: test.step, State: retire.Todo}}})

				loss := (*pruning.LossError)(nil)
				if errors.As(err, &loss) != (test.lost != "") || loss != nil && strings.Join(loss.Fields, " ") != test.lost {
					t.Errorf("error %v, want that %q would be lost", err, test.lost)
				}
				if test.step == retire.Owned && strings.Contains(entries, "f:b") {
					t.Errorf("managedFields name a field that no object has any more: %s", entries)
				}
				if written != test.at {
					t.Errorf("the object was written at %q, want %q", written, test.at)
				}
			})
		})
	}
}
