// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/golden"
)

func TestTheSuccessorOfACRDIsAnotherOneWithTheSameSchema(t *testing.T) {
	t.Parallel()
	for name, text := range manifests(t, "successor/*.yaml") {
		for way, succession := range map[string]Succession{
			"group": {To: Names{Group: "storage.example.org", Kind: "Memcached", List: "MemcachedList",
				Plural: "memcacheds", Singular: "memcached"}},
			"kind": {To: Names{Group: "cache.example.com", Kind: "Cache", List: "CacheList",
				Plural: "caches", Singular: "cache"}},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				t.Parallel()
				succession.Group, succession.Kind, succession.Version, succession.ToVersion = "cache.example.com",
					"Memcached", "v1", "v1beta2"
				outcome, err := Succeed(t.Context(), name+".yaml", text, succession)
				if err != nil {
					t.Fatal(err)
				}
				if problems := outcome.CRDs[0].CreateProblems(t.Context()); len(problems) > 0 {
					t.Errorf("the API server would not take it: %q", problems)
				}
				if got, want := outcome.CRDs[0].Name, succession.To.Plural+"."+succession.To.Group; got != want {
					t.Errorf("it is called %s, want %s", got, want)
				}
				var got strings.Builder
				for _, note := range outcome.Notes {
					fmt.Fprintf(&got, "# note: %s\n", note)
				}
				golden.Compare(t, filepath.Join("testdata", "successor", name+"-"+way+".golden"),
					got.String()+outcome.Text)
			})
		}
	}
}

func TestAFileWithoutTheCRDHasNoSuccessor(t *testing.T) {
	t.Parallel()
	_, err := Succeed(t.Context(), "f.yaml", "apiVersion: v1\nkind: List\n", Succession{Group: "g", Kind: "K"})
	if err == nil || !strings.Contains(err.Error(), "has no CustomResourceDefinition for K in g") {
		t.Errorf("got %v", err)
	}
}
