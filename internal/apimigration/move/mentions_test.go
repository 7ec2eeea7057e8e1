// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// surgeryOn reads a fixture, and changes nothing.
func surgeryOn(t *testing.T, dir string, request Request) *surgery {
	t.Helper()
	p, err := project.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	old, err := request.check(p)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSurgery(p, old, request)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhatNamesTheOldVersionIsReportedWithItsPlaces(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	write(t, dir, map[string]string{
		"internal/controller/tagged.go": "package controller\n\ntype tagged struct {\n\tField struct {\n\t\tInner " +
			"string `about:\"cache.example.com/v1\"`\n\t} `about:\"cache.example.com/v1\"`\n}\n\nvar _ tagged\n",
		"internal/controller/literals.go": `package controller

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

// +kubebuilder:webhook:path=/mutate-cache-example-com-v1-memcached,mutating=true,groups=cache.example.com,versions=v1

const version = "v1"

var (
	owner    = "cache.example.com/v1"
	another  = "cache.example.com/v1beta1, my.cache.example.com/v1"
	byHand   = schema.GroupVersionKind{Group: "cache.example.com", Version: version, Kind: "Memcached"}
	resource = schema.GroupVersionResource{"cache.example.com", "v1", "memcacheds"}
	stays    = schema.GroupVersionKind{Group: "cache.example.com", Version: version, Kind: "Backup"}
	compiled = cachev1.GroupVersion.WithKind("Memcached")
	path     = "/validate-cache-example-com-v1-memcached"
	manifest = ` + "`" + `
apiVersion: cache.example.com/v1
kind: Backup
---
apiVersion: cache.example.com/v1
kind: Memcached
` + "`" + `
)
`,
		"README.md": "Install it.\n\n    apiVersion: cache.example.com/v1\n    kind: Memcached\n\nUse " +
			"cache.example.com/v1.\n1\n2\n" +
			"cache.example.com/v1\ncache.example.com/v1\ncache.example.com/v1\ncache.example.com/v1\ncache.example.com/v1\n",
		"config/samples/both.yaml": "apiVersion: cache.example.com/v1\nkind: Backup\n---\nkind: " +
			"Memcached\napiVersion: cache.example.com/v1\n",
		"config/webhook.yaml": "kind: ValidatingWebhookConfiguration\nwebhooks:\n- clientConfig:\n    service:\n     " +
			" path: /validate-cache-example-com-v1-memcached\n",
		"bundle/csv.yaml": `kind: ClusterServiceVersion
metadata:
  annotations:
    alm-examples: |-
      [{"apiVersion": "cache.example.com/v1", "kind": "Memcached"}]
spec:
  customresourcedefinitions:
    owned:
    - {kind: Backup, name: backups.cache.example.com, version: v1}
    - kind: Memcached
      name: memcacheds.cache.example.com
      version: v1
`,
		"node_modules/other/README.md": "cache.example.com/v1",
		"plan.yaml":                    "format: " + Format + "\nrequest: cache.example.com/v1\n",
	})
	commit(t, dir, "with mentions")
	write(t, dir, map[string]string{"unknown-to-git.md": "cache.example.com/v1"})
	s := surgeryOn(t, dir, memcachedRequest)
	if err := s.mentions(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, finding := range s.findings {
		got = append(got, finding.Place+": "+finding.Text)
	}
	want := []string{
		"README.md:3: names cache.example.com/v1; so do the lines 6, 9, 10, 11 and 2 more",
		"bundle/csv.yaml:5: names cache.example.com/v1",
		"bundle/csv.yaml:10: owns kinds that move in cache.example.com/v1 only: list the new version in the " +
			"ClusterServiceVersion, too",
		"config/samples/both.yaml:5: names cache.example.com/v1",
		"config/webhook.yaml:5: is about a webhook of cache.example.com/v1: the new version needs a path and an " +
			"entry of its own",
		"internal/controller/literals.go:16: builds a group, version and kind or resource of cache.example.com/v1 by " +
			"hand: it does not match requests and objects of the new version; so do the lines 17",
		"internal/controller/literals.go:14: has cache.example.com/v1 in a string, which no compiler checks; so do " +
			"the lines 25",
		"internal/controller/literals.go:9: is about a webhook of cache.example.com/v1: the new version needs a path " +
			"and an entry of its own; so do the lines 20",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestManyFilesThatSayTheSameAreOneFindingForEachFolder(t *testing.T) {
	t.Parallel()
	s := &surgery{old: &project.Version{Group: "g", Version: "v1"}}
	seen := sightings{}
	for i := range 30 {
		seen.add(fmt.Sprintf("docs/%02d.md", i), mentionVersion, 7)
	}
	seen.add("docs/more/a.md", mentionVersion, 1)
	seen.add("docs/z.md", mentionVersion, 1)
	seen.add("docs/00.md", mentionWebhook, 3)
	s.report(seen)
	want := []Finding{
		{"docs/00.md:3", "is about a webhook of g/v1: the new version needs a path and an entry of its own"},
		{"docs/00.md:7", "names g/v1; so do 30 more files of its folder"},
		{"docs/more/a.md:1", "names g/v1"},
	}
	if diff := cmp.Diff(want, distinct(s.findings)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

func TestOnlyCommandsThatThereAreAreNamed(t *testing.T) {
	t.Parallel()
	const (
		client = "pkg/client/client.go"
		code   = "// Code generated by client-gen. DO NOT EDIT.\n\npackage client\n\nimport v1 " +
			"\"github.com/test-org/cache-operator/api/v1\"\n\n// Memcached is the kind.\ntype Memcached = " +
			"v1.Memcached\n"
	)
	dir := fixture(t, "kubebuilder")
	write(t, dir, map[string]string{client: code})
	commit(t, dir, "with a client")
	s := surgeryOn(t, dir, memcachedRequest)
	for _, test := range []struct {
		name   string
		files  map[string]string // beside those of the cases before
		gone   string
		want   []string
		change string // of a manifest
	}{
		{name: "none", want: []string{}},
		{name: "a target in Makefile", files: map[string]string{"Makefile": "generate:=no\ngenerate: " +
			"tools\n\tcontroller-gen\nmanifests:\n"}, want: []string{"make generate"}},
		{name: "a script that make does not know", files: map[string]string{updateScript: "#!/bin/sh\n"},
			want: []string{"./hack/update-codegen.sh"}},
		{name: "a script that make calls", files: map[string]string{
			"Makefile": "generate:\n\thack/update-codegen.sh\nmanifests:\n",
		}, want: []string{"make generate"}},
		{name: "manifests that controller-gen writes", change: "controller-gen.kubebuilder.io/version: v0.1\n",
			want: []string{"make generate", "make manifests"}},
		{name: "only a variable", files: map[string]string{"Makefile": "generate := no\n"},
			gone: updateScript, want: []string{}},
	} {
		write(t, dir, test.files)
		if test.gone != "" {
			if err := tree.Put(dir, test.gone, nil); err != nil {
				t.Fatal(err)
			}
		}
		s.files = map[string]*change{"crd.yaml": {content: []byte(test.change)}}
		s.findings = nil
		if diff := cmp.Diff(test.want, s.commands()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if said := len(s.findings) > 0; said != (len(test.want) == 0) {
			t.Errorf("%s: findings %v", test.name, s.findings)
		}
	}
}
