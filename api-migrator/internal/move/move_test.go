// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

var guideRequest = request.Request{Kinds: []string{"CatalogSourceConfig"}, From: "operators.example.com/v1",
	To: "operators.example.com/v2", Storage: request.StorageNew, Unexported: request.UnexportedInternal,
	Consumers: []string{request.ConsumersAll}, CRDName: string(crd.Auto)}

// made is the outcome of a request that is tried in a copy: the go command finds and compiles what the project imports.
func made(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	fixture.NeedsGo(t)
	outcome, err := Make(t.Context(), dir, asked)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func planned(t *testing.T, dir string, asked request.Request) *Plan {
	t.Helper()
	return made(t, dir, asked).Plan
}

// guide is the outcome of guideRequest, which several tests only read. Planning compiles the project, so it is done once.
var guide struct {
	planning sync.Once
	outcome  *Outcome
}

// guideOutcome is the outcome of guideRequest for the guide's project, in a tree that may be gone.
func guideOutcome(t *testing.T) *Outcome {
	t.Helper()
	fixture.NeedsGo(t)
	guide.planning.Do(func() {
		var err error
		if guide.outcome, err = Make(t.Context(), fixture.Copy(t, "guide"), guideRequest); err != nil {
			t.Fatal(err)
		}
	})
	if guide.outcome == nil {
		t.Fatal("an earlier test could not plan")
	}
	return guide.outcome
}

// migrated plans a request and writes the outcome. Apply does the same after it has planned once more, to compare the
// plans; tests that are about what is written need not pay for that.
func migrated(t *testing.T, dir string, asked request.Request) *Outcome {
	t.Helper()
	outcome := made(t, dir, asked)
	if len(outcome.Plan.Blockers) > 0 {
		t.Fatalf("blockers: %v", outcome.Plan.Blockers)
	}
	if err := outcome.write(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestThePlanOfTheGuidesProject(t *testing.T) {
	t.Parallel()
	plan := guideOutcome(t).Plan
	content, err := plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../testdata/golden/guide-plan.yaml", string(content))
	dir := fixture.Repository(t, "guide")
	before := fixture.Files(t, dir)
	again, err := planned(t, dir, guideRequest).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(content), string(again)); diff != "" {
		t.Errorf("the same tree elsewhere gives another plan:\n%s", diff)
	}
	decoded, err := Decode(content)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan, decoded); diff != "" {
		t.Errorf("a plan changes when it is written and read (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
		t.Errorf("planning wrote into the tree:\n%s", diff)
	}
}

// The tree is compared with the guide's: https://sdk.operatorframework.io, "Migrating Existing Kubernetes APIs".
func TestApplyingMakesTheTreeThatTheGuideDescribes(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	before := fixture.Files(t, dir)
	plan := guideOutcome(t).Plan
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := fixture.Files(t, dir)
	goldenTree(t, "guide-tree.txt", before, after)
	if diff := cmp.Diff(guideOutcome(t).files(before), after); diff != "" {
		t.Errorf("apply did something else than planned (-planned +done):\n%s", diff)
	}

	created := newIn(before, after)
	want := []string{
		"deploy/crds/operators.example.com_catalogsourceconfigs_crd.yaml",
		"pkg/apis/addtoscheme_operators_v2.go",
		"pkg/apis/operators/internal/shared/shared.go",
		"pkg/apis/operators/shared/doc.go",
		"pkg/apis/operators/shared/phase.go",
		"pkg/apis/operators/shared/phase_types.go",
		"pkg/apis/operators/shared/zz_generated.deepcopy.go",
		"pkg/apis/operators/v2/catalogsourceconfig.go",
		"pkg/apis/operators/v2/catalogsourceconfig_types.go",
		"pkg/apis/operators/v2/doc.go",
		"pkg/apis/operators/v2/register.go",
		"pkg/apis/operators/v2/zz_generated.deepcopy.go",
	}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("new files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml",
		"pkg/apis/operators/v1/shared.go"}, newIn(after, before)); diff != "" {
		t.Errorf("removed files (-want +got):\n%s", diff)
	}
	checkInvariants(t, dir, before, after)
	checkProject(t, dir)

	if done, err := Apply(t.Context(), dir, plan, false); err != nil || done {
		t.Errorf("apply again: %v, %v; want nothing to do", done, err)
	}
	if diff := cmp.Diff(after, fixture.Files(t, dir)); diff != "" {
		t.Errorf("applying twice changed something:\n%s", diff)
	}
}

// goldenTree compares all files that have changed with a golden file.
func goldenTree(t *testing.T, name string, before, after map[string]string) {
	t.Helper()
	var out strings.Builder
	for _, file := range slices.Sorted(maps.Keys(after)) {
		if before[file] != after[file] {
			fmt.Fprintf(&out, "-- %s --\n%s", file, after[file])
		}
	}
	golden.Compare(t, "../testdata/golden/"+name, out.String())
}

func newIn(before, after map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	return names
}

// checkInvariants asserts what holds after every migration.
func checkInvariants(t *testing.T, dir string, before, after map[string]string) {
	t.Helper()
	checkManifests(t, dir, before, after)
	if compiles {
		checkProject(t, dir)
	}
	if out := fixture.Run(t, dir, "gofmt", "-l", "."); len(out) > 0 {
		t.Errorf("not formatted: %s", out)
	}
	have := comments(t, after)
	for comment, n := range comments(t, before) {
		if have[comment] < n {
			t.Errorf("%d of %d comments are left: %s", have[comment], n, comment)
		}
	}
}

// comments counts the lines of comments of code that people write. In files that are rewritten, names of packages in
// comments follow their imports; they are left out of the comparison.
func comments(t *testing.T, files map[string]string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for name, content := range files {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "zz_generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range file.Comments {
			for _, comment := range group.List {
				text := strings.NewReplacer("operatorsv1.", "", "operatorsv2.", "", "shared.", "", "ensureFinalizer",
					"EnsureFinalizer").Replace(comment.Text)
				found[text]++
			}
		}
	}
	// The licence is in each file, and the number of files changes.
	delete(found, "// Copyright 2019 The Test Operator Authors")
	delete(found, "//")
	return found
}

func TestThePatchIsWhatApplyDoes(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	before := fixture.Files(t, dir)
	outcome := *guideOutcome(t)
	outcome.Root = dir
	patch, err := outcome.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
		t.Errorf("making a patch wrote into the tree:\n%s", diff)
	}
	file := filepath.Join(t.TempDir(), "patch")
	if err := os.WriteFile(file, patch, 0o644); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "git", "apply", file)
	if diff := cmp.Diff(outcome.files(before), fixture.Files(t, dir)); diff != "" {
		t.Errorf("apply and git apply differ:\n%s", diff)
	}
}

// checkProject compiles and vets a project and runs its own tests.
func checkProject(t *testing.T, dir string) {
	t.Helper()
	fixture.Run(t, dir, "go", "test", "-vet=all", "./...")
}

func TestOptionsGiveTreesThatCompileAndKeepWhatTheyShould(t *testing.T) {
	t.Parallel()
	const (
		v1types    = "pkg/apis/operators/v1/catalogsourceconfig_types.go"
		v2types    = "pkg/apis/operators/v2/catalogsourceconfig_types.go"
		controller = "pkg/controller/catalogsourceconfig/catalogsourceconfig_controller.go"
		group      = "pkg/controller/operatorgroup/operatorgroup_controller.go"
	)
	for name, test := range map[string]struct {
		change func(*request.Request)
		has    map[string]string // file → what it must contain
		lacks  map[string]string
		same   []string
	}{
		"unexported code is exported in the shared package": {
			change: func(r *request.Request) { r.Unexported = request.UnexportedExport },
			has: map[string]string{"pkg/apis/operators/shared/shared.go": "func EnsureFinalizer(",
				"pkg/apis/operators/v2/catalogsourceconfig.go": "shared.EnsureFinalizer("},
			lacks: map[string]string{"pkg/apis/operators/v2/catalogsourceconfig.go": "internal/shared"},
		},
		"no importer is changed, but the new version is registered": {
			change: func(r *request.Request) { r.Consumers = []string{request.ConsumersNone} },
			has:    map[string]string{"pkg/apis/addtoscheme_operators_v2.go": "v2.SchemeBuilder.AddToScheme"},
			same:   []string{controller, group, "pkg/apis/apis_test.go"},
		},
		"only importers that a pattern names are changed": {
			change: func(r *request.Request) { r.Consumers = []string{"pkg/controller/operatorgroup/..."} },
			has:    map[string]string{group: "shared.PhaseFailed"},
			same:   []string{controller},
		},
		"the old version stays the storage version": {
			change: func(r *request.Request) { r.Storage = request.StorageOld },
			has:    map[string]string{v1types: storageMarker},
			lacks:  map[string]string{v2types: storageMarker},
		},
		"both kinds move and nothing is shared": {
			change: func(r *request.Request) { r.Kinds = []string{"CatalogSourceConfig", "OperatorGroup"} },
			has: map[string]string{"pkg/apis/operators/v2/phase_types.go": "type Phase struct",
				"pkg/apis/operators/v2/shared.go": "func ensureFinalizer("},
			lacks: map[string]string{v2types: "operators/shared"},
		},
		"a declaration goes where it is assigned": {
			change: func(r *request.Request) { r.Assign = map[string]split.Destination{"PhaseRunning": split.New} },
			has: map[string]string{"pkg/apis/operators/v2/phase_types.go": "PhaseRunning = \"Running\"",
				controller: "operatorsv2.PhaseRunning"},
			lacks: map[string]string{"pkg/apis/operators/shared/phase_types.go": "PhaseRunning"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "guide")
			before := fixture.Files(t, dir)
			asked := guideRequest
			asked.Kinds = slices.Clone(asked.Kinds)
			test.change(&asked)
			after := checkOutcome(t, dir, asked).files(before)
			for file, want := range test.has {
				if !strings.Contains(after[file], want) {
					t.Errorf("%s lacks %q:\n%s", file, want, after[file])
				}
			}
			for file, without := range test.lacks {
				if _, ok := after[file]; !ok || strings.Contains(after[file], without) {
					t.Errorf("%s has %q:\n%s", file, without, after[file])
				}
			}
			for _, file := range test.same {
				if after[file] != before[file] {
					t.Errorf("%s has changed:\n%s", file, after[file])
				}
			}
		})
	}
}
