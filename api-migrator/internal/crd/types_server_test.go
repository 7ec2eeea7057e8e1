// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"go/types"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/typeschema"
)

// roundsManifest is a hand-written CRD of objects whose Go type is that of Deployments. It names a few of their fields.
const roundsManifest = `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata:
  name: rounds.example.com
spec:
  group: example.com
  names: {plural: rounds, singular: round, kind: Round, listKind: RoundList}
  scope: Cluster
  version: v1
  preserveUnknownFields: true
  validation:
    openAPIV3Schema:
      type: object
      properties:
        spec:
          type: object
          properties:
            replicas:
              type: integer
            template:
              type: object
              properties:
                metadata:
                  type: object
                spec:
                  type: object
                  properties:
                    containers:
                      type: array
                      items:
                        type: object
                        properties:
                          name:
                            type: string
        status:
          type: object
`

// typeOfRounds is the Go type as a project is read.
func typeOfRounds(t *testing.T) types.Type {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{Context: t.Context(), Mode: packages.NeedName | packages.NeedTypes},
		"k8s.io/api/apps/v1")
	if err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0 {
		t.Fatalf("load the type: %v, %v", loaded, err)
	}
	return loaded[0].Types.Scope().Lookup("Deployment").Type()
}

// round is an object that a Go program writes.
func round(t *testing.T) map[string]any {
	t.Helper()
	replicas, labels := int32(2), map[string]string{"app": "one"}
	raw, err := json.Marshal(appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Round"},
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: labels},
				Spec: corev1.PodSpec{
					Containers:   []corev1.Container{{Name: "main", Image: "example.com/main"}, {Name: "other", Image: "b"}},
					NodeSelector: labels,
				},
			},
		},
		Status: appsv1.DeploymentStatus{
			Replicas:   2,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// missing are the paths of what is in one value and not in another one.
func missing(path string, sent, read any) (paths []string) {
	switch sent := sent.(type) {
	case map[string]any:
		read, _ := read.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(sent)) {
			inner := strings.TrimPrefix(path+"."+key, ".")
			if value, ok := read[key]; ok {
				paths = append(paths, missing(inner, sent[key], value)...)
			} else {
				paths = append(paths, inner)
			}
		}
	case []any:
		read, _ := read.([]any)
		for i := range min(len(sent), len(read)) {
			paths = append(paths, missing(path+"[]", sent[i], read[i])...)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// checkGoType creates an object of a Go type, migrates its CRD as a plan does, and reads everything back.
func (s *server) checkGoType() {
	s.t.Helper()
	const folder, key = "/apis/example.com/v1/rounds", "/registry/example.com/rounds/one"
	kind, object := typeOfRounds(s.t), round(s.t)
	upgrade := func(manifest, version string) *Upgraded {
		s.t.Helper()
		upgraded, err := Upgrade(s.t.Context(), "rounds", manifest, Options{AddVersion: version})
		if err != nil {
			s.t.Fatal(err)
		}
		return upgraded
	}
	drops := func(d *CRD, version string) (paths []string) {
		s.t.Helper()
		schema, err := d.Structural(version)
		if err != nil {
			s.t.Fatal(err)
		}
		dropped, err := typeschema.Dropped(kind, schema)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, field := range dropped {
			paths = append(paths, field.Path)
		}
		return paths
	}

	// Every field was kept, and is kept in both versions.
	before, after := upgrade(roundsManifest, ""), upgrade(roundsManifest, "v2")
	s.holds(before.CRDs[0], asJSON(s.t, before.Text))
	s.creates(folder, object)
	want := maps.Clone(object)
	want["apiVersion"] = "example.com/v2"
	if diff := cmp.Diff(want, s.rewrites(after.CRDs[0], asJSON(s.t, after.Text), folder, key)); diff != "" {
		s.t.Errorf("the object in etcd (-before +after the migration):\n%s", diff)
	}
	for _, version := range []string{"v1", "v2"} {
		_, read := s.do(http.MethodGet, strings.Replace(folder, "v1", version, 1)+"/one", nil)
		if lost := missing("", object, content(read)); len(lost) > 0 {
			s.t.Errorf("read in %s, the object lacks %q", version, lost)
		}
		if paths := drops(after.CRDs[0], version); len(paths) > 0 {
			s.t.Errorf("the schema of %s is said to drop %q", version, paths)
		}
	}
	s.remove(after.CRDs[0].Name)

	// Unknown fields were dropped: what a server takes from the object is what the schema is said to drop.
	pruning := upgrade(strings.Replace(roundsManifest, "Fields: true", "Fields: false", 1), "")
	if !s.takes(http.MethodPost, crdsPath, asJSON(s.t, pruning.Text)) {
		s.t.Fatal("the API server does not take the CRD")
	}
	defer s.remove(pruning.CRDs[0].Name)
	s.establish(pruning.CRDs[0].Name, []string{"v1"})
	raw, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	var read map[string]any
	s.until("the server to create the object", func() bool {
		var code int
		code, read = s.do(http.MethodPost, folder, raw)
		return code == http.StatusCreated
	})
	lost := missing("", object, content(read))
	said := drops(pruning.CRDs[0], "v1")
	if len(lost) == 0 {
		s.t.Error("the server drops nothing")
	}
	for _, path := range lost {
		if !slices.Contains(said, path) {
			s.t.Errorf("the server drops %s, which is not among %q", path, said)
		}
	}
	for _, path := range said {
		if !slices.Contains(lost, path) && contains(object, path) {
			s.t.Errorf("the server keeps %s, which is said to be dropped", path)
		}
	}
}

// contains reports whether an object has a path.
func contains(value any, path string) bool {
	key, rest, more := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(key, "[]")
	object, _ := value.(map[string]any)
	inner, ok := object[name]
	if !ok || !more {
		return ok
	}
	if isList {
		items, _ := inner.([]any)
		return slices.ContainsFunc(items, func(item any) bool { return contains(item, rest) })
	}
	return contains(inner, rest)
}
