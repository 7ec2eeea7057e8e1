// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/typeschema"
)

const memcachedManifest = "config/crd/bases/cache.example.com_memcacheds.yaml"

// withManifest is the kubebuilder fixture with another manifest of its kind.
func withManifest(t *testing.T, manifest string, change func(types string) string) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{
		memcachedManifest: fixture.Archive(t, "testdata/schemas.txtar")[manifest],
	})
	if change != nil {
		const file = "api/v1/memcached_types.go"
		before := fixture.Read(t, dir, file)
		after := change(before)
		if after == before {
			t.Fatalf("%s is unchanged", file)
		}
		fixture.Write(t, dir, map[string]string{file: after})
	}
	return dir
}

func TestFieldsThatASchemaLacksAreReported(t *testing.T) {
	t.Parallel()
	inlined := func(types string) string {
		return strings.Replace(types, "Place Place `json:\"place,omitempty\"`", "Place Place `json:\",inline\"`", 1)
	}
	const (
		drop   = "API servers drop fields that Go code writes, since the schema of "
		lacks  = drop + "v1beta2 lacks them, as that of v1 does: "
		labels = "spec.place.labels (Place, api/v1/backup_types.go:26)"
		status = "status.conditions (MemcachedStatus, api/v1/memcached_types.go:22)"
		column = "the printer column Condition of v1beta2 stays empty: it reads .status.conditions[0].type, and the schema " +
			"drops .status.conditions"
	)
	for name, test := range map[string]struct {
		manifest           string
		types              func(string) string
		asked              func(*request.Request)
		blockers, findings []string
	}{
		"dropped in the old version as well": {
			manifest: "status-without-fields.yaml", findings: []string{lacks + labels, lacks + status, column},
		},
		"dropped in the old CRD as well": {
			manifest: "status-without-fields.yaml",
			asked:    func(r *request.Request) { r.To = "storage.example.com/v1" },
			findings: []string{
				drop + "the new CRD lacks them, as that of the old CRD does: " + labels,
				drop + "the new CRD lacks them, as that of the old CRD does: " + status,
				strings.Replace(column, "v1beta2", "v1", 1),
			},
		},
		"kept in the old version": {
			manifest: "written-for-another-version.yaml",
			blockers: []string{"objects would lose fields that Go code writes: the schema of v1 keeps them, and that of " +
				"v1beta2 drops them: spec.place (MemcachedSpec, api/v1/memcached_types.go:17)"},
			findings: []string{lacks + "status (Memcached, api/v1/memcached_types.go:34)"},
		},
		"a field with a name that is to be inlined": {
			manifest: "status-without-fields.yaml", types: inlined,
			findings: []string{lacks + "spec.Place (MemcachedSpec, api/v1/memcached_types.go:17). encoding/json does not " +
				"inline Place, because the field has a name, though controller-gen does: embed the struct, or give the " +
				"field a name in JSON", lacks + status, column},
		},
		"the storage version, if the old CRD lacks the old version": {
			manifest: "without-the-old-version.yaml",
			asked:    func(r *request.Request) { r.To = "storage.example.com/v1" },
			findings: []string{drop + "the new CRD lacks them, as that of the old CRD does: spec, status (Memcached, " +
				"api/v1/memcached_types.go:33)"},
		},
		"every field was kept": {manifest: "every-field-kept.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := decided.Memcached()
			if test.asked != nil {
				test.asked(&asked)
			}
			s := manifestsOf(t, withManifest(t, test.manifest, test.types), asked)
			about := func(all []finding.Finding) (found []string) {
				for _, one := range finding.Distinct(all) {
					if one.Where == memcachedManifest && (strings.Contains(one.Text, "Go code writes") ||
						strings.Contains(one.Text, "printer column")) {
						found = append(found, one.Text)
					}
				}
				return found
			}
			if diff := cmp.Diff(test.blockers, about(s.Blockers)); diff != "" {
				t.Errorf("blockers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.findings, about(s.Findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatACopyOfACRDLacksIsOneFinding(t *testing.T) {
	t.Parallel()
	const copied, other = "deploy/crds/memcacheds.yaml", "deploy/old/memcacheds.yaml"
	dir := withManifest(t, "status-without-fields.yaml", nil)
	same := fixture.Read(t, dir, memcachedManifest)
	fixture.Write(t, dir, map[string]string{copied: same, other: fixture.Archive(t,
		"testdata/schemas.txtar")["written-for-another-version.yaml"]})
	got := map[string][]string{}
	for _, one := range finding.Distinct(manifestsOf(t, dir, decided.Memcached()).Findings) {
		if strings.Contains(one.Text, "API servers drop ") {
			text, _, _ := strings.Cut(one.Text, ", since")
			got[one.Where] = append(got[one.Where], text)
		}
	}
	const drop = "API servers drop fields that Go code writes"
	if diff := cmp.Diff(map[string][]string{
		memcachedManifest: {drop, drop},
		copied:            {"the schema of v1beta2 lacks the same fields here as in " + memcachedManifest + ", and API servers drop them"},
		other:             {drop}, // it lacks others
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFieldsThatAVersionDropsAreFoundAfterwardsToo(t *testing.T) {
	t.Parallel()
	const (
		at      = memcachedManifest + ": "
		note    = at + "API servers drop fields that Go code writes, since the schema of v1 lacks them: "
		place   = "spec.place (MemcachedSpec, api/v1/memcached_types.go:17)"
		status  = "status (Memcached, api/v1/memcached_types.go:34)"
		another = at + "the schema of v1 drops fields that Go code writes, and that another version keeps: "
	)
	for name, test := range map[string]struct {
		manifest          string
		change            func(text string) string
		violations, notes []string
	}{
		"in every version": {"status-without-fields.yaml", nil, nil, []string{
			note + "spec.place.labels (Place, api/v1/backup_types.go:26)",
			note + "status.conditions (MemcachedStatus, api/v1/memcached_types.go:22)",
		}},
		"in another version alone": {"written-for-another-version.yaml", nil, nil, []string{note + status}},
		"in one version alone": {
			"written-for-another-version.yaml",
			func(text string) string { // the versions change places
				return strings.NewReplacer("name: v1\n", "name: v1beta2\n", "name: v1beta2\n", "name: v1\n").Replace(text)
			},
			[]string{another + place},
			[]string{note + status},
		},
		"in none": {"every-field-kept.yaml", nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := withManifest(t, test.manifest, nil)
			if test.change != nil {
				changed := test.change(fixture.Read(t, dir, memcachedManifest))
				fixture.Write(t, dir, map[string]string{memcachedManifest: changed})
			}
			violations, notes, err := Unkept(typed.Load(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			ofOthers := func(text string) bool { return !strings.HasPrefix(text, at) }
			if diff := cmp.Diff(test.violations, slices.DeleteFunc(violations, ofOthers)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, slices.DeleteFunc(notes, ofOthers)); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestThePlanOfACopySaysWhichPartOfTheStatusIsDropped(t *testing.T) {
	t.Parallel()
	withoutSubresource := func(types string) string {
		return strings.Replace(types, "// +kubebuilder:subresource:status\n", "", 1)
	}
	const (
		command = "--subresource=status"
		drops   = "the schemas of the new CRDs, like those of the old ones, drop status.conditions, although Go code writes " +
			"it: neither the old objects nor the copies have it. If the operator needs it, name it in the schema first."
		has = "Copy the status: no kind has a status subresource, so that the copies have all that the old objects have."
	)
	for name, test := range map[string]struct {
		manifest   string
		types      func(string) string
		do, byHand string
		copies     bool
	}{
		"with the subresource":    {"status-without-fields.yaml", nil, "Copy the status.", drops, true},
		"without the subresource": {"status-without-fields.yaml", withoutSubresource, has, drops, false},
		"a status that is kept":   {"every-field-kept.yaml", nil, "Copy the status.", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := decided.Memcached()
			asked.To = "storage.example.com/v1"
			l := decided.Layout(t, withManifest(t, test.manifest, test.types), asked)
			_, created, err := Manifests(t.Context(), l, nil)
			if err != nil {
				t.Fatal(err)
			}
			steps := NewCopy(l, nil, created).Steps
			i := slices.IndexFunc(steps, func(s CopyStep) bool { return strings.HasPrefix(s.Do, "Copy the status") })
			if i < 0 {
				t.Fatalf("no step is about the status: %v", steps)
			}
			step := steps[i]
			if step.Do != test.do || step.ByHand != test.byHand || strings.Contains(strings.Join(step.Commands, ""), command) != test.copies {
				t.Errorf("got %+v, want %+v", step, test)
			}
		})
	}
}

func TestNoFieldOfAGoTypeIsPrunedThatAnUpgradedCRDKept(t *testing.T) {
	t.Parallel()
	l := decided.Layout(t, withManifest(t, "every-field-kept.yaml", nil), decided.Memcached())
	result, _, err := Manifests(t.Context(), l, nil)
	if err != nil {
		t.Fatal(err)
	}
	change := result.Changes[memcachedManifest]
	if change == nil {
		t.Fatalf("the manifest is not among %v", maps.Keys(result.Changes))
	}
	d, err := crd.Find(memcachedManifest, string(change.Content), "cache.example.com", "Memcached")
	if err != nil {
		t.Fatal(err)
	}
	kind := l.Old.Package.Types.Scope().Lookup("Memcached").Type()
	for _, version := range []string{"v1", "v1beta2"} {
		schema, err := d.Structural(version)
		if err != nil {
			t.Fatal(err)
		}
		if dropped, err := typeschema.Dropped(kind, schema); err != nil || len(dropped) > 0 {
			t.Errorf("%s drops %v, %v:\n%s", version, dropped, err, change.Content)
		}
	}
}
