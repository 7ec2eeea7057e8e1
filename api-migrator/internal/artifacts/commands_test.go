// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

func TestOnlyCommandsThatThereAreAreNamed(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/generated-client.txtar"))
	fixture.Commit(t, dir, "with a client")
	l := decided.Layout(t, dir, decided.Memcached())
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
		commands, report := Commands(l, changeset.Set{"crd.yaml": {Content: []byte(test.change)}})
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
	_, report := Commands(decided.Layout(t, dir, decided.Memcached()), changeset.Set{})
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
