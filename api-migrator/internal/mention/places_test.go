// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

func TestWhatNamesTheOldVersionIsReportedWithItsPlaces(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/mentions.txtar"))
	fixture.Write(t, dir, map[string]string{"plan.yaml": "format: " + "api-migrator/v1" + "\nrequest: cache.example.com/v1\n"})
	fixture.Commit(t, dir, "with mentions")
	fixture.Write(t, dir, map[string]string{"unknown-to-git.md": "cache.example.com/v1"})
	found, err := NewReader(decided.Layout(t, dir, decided.Memcached())).Mentions(t.Context(), nil)
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
	if err := tree.Put(dir, "config/crd/bases/cache.example.com_memcacheds.yaml", nil); err != nil {
		t.Fatal(err)
	}
	fixture.Commit(t, dir, "without a CRD")
	asked := decided.Memcached()
	asked.WithoutCRDs = true
	found, err := NewReader(decided.Layout(t, dir, asked)).Mentions(t.Context(), nil)
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
