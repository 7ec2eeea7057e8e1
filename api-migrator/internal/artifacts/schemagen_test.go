// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// pruned is what an API server leaves of an object that has every field of the Go type.
func pruned(t *testing.T, manifest, group, version, kind string) (before, after map[string]any) {
	t.Helper()
	d, err := crd.Find(memcachedManifest, manifest, group, kind)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := d.Structural(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []*map[string]any{&before, &after} {
		if err := yaml.Unmarshal([]byte(fixture.Archive(t, "testdata/generated-schema.txtar")["object.yaml"]), one); err != nil {
			t.Fatal(err)
		}
	}
	structuralpruning.Prune(after, schema, true)
	return before, after
}

func TestAGeneratedSchemaKeepsEveryFieldThatGoCodeWrites(t *testing.T) {
	t.Parallel()
	manifest := fixture.Archive(t, "testdata/generated-schema.txtar")["stricter.yaml"]
	for name, test := range map[string]struct {
		change func(*request.Request)
		file   string
		group  string
		isKept bool
	}{
		"copied":    {func(*request.Request) {}, memcachedManifest, "cache.example.com", false},
		"generated": {func(r *request.Request) { r.Schema = request.SchemaGenerate }, memcachedManifest, "cache.example.com", true},
		"of another group": {func(r *request.Request) { r.Schema, r.To = request.SchemaGenerate, "storage.example.com/v1beta2" },
			"config/crd/bases/storage.example.com_memcacheds.yaml", "storage.example.com", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixture.NeedsGo(t)
			dir := fixture.Repository(t, "kubebuilder")
			fixture.Write(t, dir, map[string]string{memcachedManifest: manifest})
			asked := decided.Memcached()
			test.change(&asked)
			s := manifestsOf(t, dir, asked)
			change := s.Changes[test.file]
			if change == nil {
				t.Fatalf("%s is not changed: %v, %v", test.file, s.Changes, s.Blockers)
			}
			written := string(change.Content)
			before, after := pruned(t, written, test.group, "v1beta2", "Memcached")
			if diff := cmp.Diff(before, after); (diff == "") != test.isKept {
				t.Errorf("an API server drops, while everything is kept is %v (-want +got):\n%s", test.isKept, diff)
			}
			if strings.Contains(written, "description:") || !strings.Contains(written, "    # What objects look like.\n") {
				t.Errorf("the style of the manifest has changed:\n%s", written)
			}
			if test.group == "cache.example.com" && !strings.HasSuffix(written, manifest[strings.Index(manifest, "    # What"):]) {
				t.Errorf("the old version has changed:\n%s", written)
			}
			want := ""
			if test.isKept {
				want = "objects that the schema of v1 accepts may be refused in v1beta2, because the one that is generated for it is " +
					"stricter: spec.place (required), spec.size (format)" +
					"the schema of v1 is stricter than the one that is generated for v1beta2, because the Go types lack markers " +
					"for this: spec (required), spec.place.medium (enum), spec.size (maximum)"
			}
			if got := aboutSchemas(s.Findings); got != want {
				t.Errorf("findings: %s, want %s", got, want)
			}
			if len(s.Blockers) > 0 {
				t.Error(s.Blockers)
			}
		})
	}
}

func aboutSchemas(all []finding.Finding) (found string) {
	for _, one := range finding.Distinct(all) {
		if strings.Contains(one.Text, "is generated for") {
			found += one.Text
		}
	}
	return found
}

// What the schema before kept, and no Go type names, would be lost.
func TestWhatAGeneratedSchemaWouldDropIsTold(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{
		memcachedManifest: fixture.Archive(t, "testdata/generated-schema.txtar")["wider.yaml"]})
	asked := decided.Memcached()
	asked.Schema = request.SchemaGenerate
	const unnamed = "objects may lose fields that no schema names: the schema of v1 keeps them in spec.place, and the one that is " +
		"generated for v1beta2 drops them. The marker +kubebuilder:pruning:PreserveUnknownFields keeps them there"
	const want = "objects would lose fields that the Go types lack: the schema of v1 keeps them, and the one that is " +
		"generated for v1beta2 drops them: spec.legacy. Add them to the types, or use --schema copy"
	s := manifestsOf(t, dir, asked)
	if got := aboutSchemas(s.Blockers); got != want {
		t.Errorf("blockers: %s, want %s", got, want)
	}
	if got := aboutSchemas(s.Findings); !strings.HasPrefix(got, unnamed) {
		t.Errorf("findings: %s, want %s", got, unnamed)
	}
}

// Objects of a version that the CRD lacks were written as the storage version says.
func TestAGeneratedSchemaIsComparedWithTheStorageVersionIfTheOldOneIsNotThere(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	asked := decided.Memcached()
	asked.Schema, asked.To = request.SchemaGenerate, "storage.example.com/v1"
	s := manifestsOf(t, withManifest(t, "without-the-old-version.yaml", nil), asked)
	if got := aboutSchemas(append(s.Blockers, s.Findings...)); got != "" {
		t.Errorf("the storage version keeps nothing that the new schema drops, but the plan says: %s", got)
	}
}
