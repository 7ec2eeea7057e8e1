// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// layoutOn returns the layout that is decided for a fixture. It changes no file.
func layoutOn(t *testing.T, dir string, asked request.Request) *layout.Layout {
	t.Helper()
	from, err := gather(t.Context(), dir, asked)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := decide(from)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestWhatNamesTheOldVersionIsReportedWithItsPlaces(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/mentions.txtar"))
	fixture.Write(t, dir, map[string]string{"plan.yaml": "format: " + Format + "\nrequest: cache.example.com/v1\n"})
	fixture.Commit(t, dir, "with mentions")
	fixture.Write(t, dir, map[string]string{"unknown-to-git.md": "cache.example.com/v1"})
	found, err := mention.NewReader(layoutOn(t, dir, memcachedRequest)).Mentions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range found {
		got = append(got, one.Where+": "+one.Text)
	}
	want := []string{
		"Makefile:3: names cache.example.com/v1; so does line 7",
		"hack/wait.sh:4: names cache.example.com/v1",
		"README.md:3: names cache.example.com/v1; so do the lines 6, 9, 10, 11 and 2 more",
		"bundle/csv.yaml:5: names cache.example.com/v1",
		"bundle/csv.yaml:10: owns kinds that move in cache.example.com/v1 only: list the new version in the " +
			"ClusterServiceVersion, too",
		"config/samples/both.yaml:5: names cache.example.com/v1",
		"config/webhook.yaml:5: is about a webhook of cache.example.com/v1: the new version needs a path and an " +
			"entry of its own",
		"internal/controller/literals.go:16: builds a group, version and kind or resource of cache.example.com/v1 by " +
			"hand: it does not match requests and objects of the new version; so does line 17",
		"internal/controller/literals.go:14: has cache.example.com/v1 in a string, which no compiler checks; so does " +
			"line 25",
		"internal/controller/literals.go:20: is about a webhook of cache.example.com/v1: the new version needs a path " +
			"and an entry of its own",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// Without a CRD, the plural of a kind is not known for certain.
func TestWhatBeginsWithAKindIsItsResourceWithoutACRD(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{"internal/lister/lister.go": `// Package lister lists.
package lister

import "k8s.io/apimachinery/pkg/runtime/schema"

// All are resources of a group.
func All(group string) []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: group, Version: "v1", Resource: "memcacheds"},
		{Group: group, Version: "v1", Resource: "backups"},
	}
}
`})
	if err := tree.Put(dir, memcachedManifest, nil); err != nil {
		t.Fatal(err)
	}
	fixture.Commit(t, dir, "without a CRD")
	asked := memcachedRequest
	asked.WithoutCRDs = true
	found, err := mention.NewReader(layoutOn(t, dir, asked)).Mentions(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range found {
		if strings.HasPrefix(one.Where, "internal/lister") {
			got = append(got, one.String())
		}
	}
	want := []string{"internal/lister/lister.go:9: may build a group, version and kind or resource of " +
		"cache.example.com/v1, which no compiler tells"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestOnlyCommandsThatThereAreAreNamed(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/generated-client.txtar"))
	fixture.Commit(t, dir, "with a client")
	l := layoutOn(t, dir, memcachedRequest)
	for _, test := range []struct {
		name   string
		files  map[string]string // next to those of the cases before
		gone   string
		want   []string
		change string // of a manifest
	}{
		{name: "none", want: []string{}},
		{name: "a target in Makefile", files: map[string]string{"Makefile": "generate:=no\ngenerate: " +
			"tools\n\tcontroller-gen\nmanifests:\n"}, want: []string{"make generate"}},
		{name: "a script that make does not know", files: map[string]string{"hack/update-codegen.sh": "#!/bin/sh\n"},
			want: []string{"./hack/update-codegen.sh"}},
		{name: "a script that make calls", files: map[string]string{
			"Makefile": "generate:\n\thack/update-codegen.sh\nmanifests:\n",
		}, want: []string{"make generate"}},
		{name: "manifests that controller-gen writes", change: "controller-gen.kubebuilder.io/version: v0.1\n",
			want: []string{"make generate", "make manifests"}},
		{name: "a target and a script that run generators of clients", files: map[string]string{
			"Makefile": "GEN := bin/client-gen\ngenerate:\n\tcontroller-gen\nclients: tools\n\t$(GEN) --out pkg/client\n" +
				"tools:\n\tgo install k8s.io/code-generator/cmd/client-gen\n",
			"hack/generate-listers.sh": "lister-gen\n", "hack/verify-listers.sh": "lister-gen\n", "hack/other.sh": "true\n",
		}, gone: "hack/update-codegen.sh", want: []string{"make generate", "make clients", "./hack/generate-listers.sh"}},
		{name: "a target that calls the script", files: map[string]string{
			"Makefile": "listers:\n\tbash hack/generate-listers.sh\n",
		}, want: []string{"make listers"}},
		{name: "only a variable", files: map[string]string{"Makefile": "generate := no\n"},
			gone: "hack/generate-listers.sh", want: []string{}},
	} {
		fixture.Write(t, dir, test.files)
		if test.gone != "" {
			if err := tree.Put(dir, test.gone, nil); err != nil {
				t.Fatal(err)
			}
		}
		commands, report := artifacts.Commands(l, changeset.Set{"crd.yaml": {Content: []byte(test.change)}})
		if diff := cmp.Diff(test.want, commands); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if said := len(report.Findings) > 0; said != (len(test.want) == 0) {
			t.Errorf("%s: findings %v", test.name, report.Findings)
		}
	}
}

func TestVersionsThatCommandsListForGeneratorsAreFindings(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/generated-client.txtar"))
	fixture.Write(t, dir, map[string]string{
		"Makefile": "clients:\n\tclient-gen --input cache/v1 --out pkg/client\nother:\n\techo cache/v1\n",
		"hack/update-codegen.sh": "bash generate-groups.sh all a b \\\n  \"other:v1 cache:v1alpha1,v1 cache:v10\"\n" +
			"# cache:v1\nbash generate-groups.sh all a b cache:v1,v1beta2\n",
		"hack/generate-none.sh": "echo cache:v1\n",
	})
	fixture.Commit(t, dir, "with a client")
	_, report := artifacts.Commands(layoutOn(t, dir, memcachedRequest), changeset.Set{})
	var got []string
	for _, one := range report.Findings {
		got = append(got, one.String())
	}
	slices.Sort(got)
	want := []string{
		"Makefile:2: generates code for cache/v1: add cache/v1beta2 before it runs again",
		"hack/update-codegen.sh:2: generates code for cache:v1alpha1,v1: add cache:v1beta2 before it runs again",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
