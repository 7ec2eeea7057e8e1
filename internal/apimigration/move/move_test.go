// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

var guideRequest = request.Request{Kinds: []string{"CatalogSourceConfig"}, From: "operators.example.com/v1",
	To: "operators.example.com/v2", Storage: request.StorageNew, Unexported: request.UnexportedInternal,
	Consumers: []string{request.ConsumersAll}, CRDName: string(crd.Auto)}

// fixture is a copy of a project of testdata, committed to git.
func fixture(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Copy(filepath.Join("..", "testdata", name), dir); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "git", "init", "-q")
	run(t, dir, "git", "add", ".")
	run(t, dir, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "before")
	return dir
}

func run(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// filesOf reads all files but .git.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && entry.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		content, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[filepath.ToSlash(rel)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func planned(t *testing.T, dir string, asked request.Request) *Plan {
	t.Helper()
	outcome, err := Make(t.Context(), dir, asked)
	if err != nil {
		t.Fatal(err)
	}
	return outcome.Plan
}

func TestThePlanOfTheGuidesProject(t *testing.T) {
	dir := fixture(t, "guide")
	before := filesOf(t, dir)
	plan := planned(t, dir, guideRequest)
	content, err := plan.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "../testdata/golden/guide-plan.yaml", string(content))
	again, err := planned(t, fixture(t, "guide"), guideRequest).Encode()
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
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("planning wrote into the tree:\n%s", diff)
	}
}

// The tree is compared with the guide's: https://sdk.operatorframework.io, "Migrating Existing Kubernetes APIs".
func TestApplyingMakesTheTreeThatTheGuideDescribes(t *testing.T) {
	dir := fixture(t, "guide")
	before := filesOf(t, dir)
	plan := planned(t, dir, guideRequest)
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := filesOf(t, dir)
	goldenTree(t, "guide-tree.txt", before, after)

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

	if done, err := Apply(t.Context(), dir, plan, false); err != nil || done {
		t.Errorf("apply again: %v, %v; want nothing to do", done, err)
	}
	if diff := cmp.Diff(after, filesOf(t, dir)); diff != "" {
		t.Errorf("applying twice changed something:\n%s", diff)
	}
}

// goldenTree shows every file that differs.
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
	checkProject(t, dir)
	if out := run(t, dir, "gofmt", "-l", "."); len(out) > 0 {
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
	// A licence stands once in each file, and files come and go.
	delete(found, "// Copyright 2019 The Test Operator Authors")
	delete(found, "//")
	return found
}

func TestThePatchIsWhatApplyDoes(t *testing.T) {
	dir, other := fixture(t, "guide"), fixture(t, "guide")
	before := filesOf(t, dir)
	plan := planned(t, dir, guideRequest)
	outcome, err := Again(t.Context(), dir, plan)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := outcome.Patch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("making a patch wrote into the tree:\n%s", diff)
	}
	if _, err := Apply(t.Context(), dir, plan, false); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "patch")
	if err := os.WriteFile(file, patch, 0o644); err != nil {
		t.Fatal(err)
	}
	run(t, other, "git", "apply", file)
	if diff := cmp.Diff(filesOf(t, dir), filesOf(t, other)); diff != "" {
		t.Errorf("apply and git apply differ:\n%s", diff)
	}
}

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(content, text...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantProblem(t *testing.T, err error, text string) {
	t.Helper()
	problem := (*hint.Error)(nil)
	if !errors.As(err, &problem) || !strings.Contains(problem.Error(), text) || problem.Try == "" {
		t.Errorf("got %v, want an error for the user with %q", err, text)
	}
}

func TestOptionsGiveTreesThatCompileAndKeepWhatTheyShould(t *testing.T) {
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
			dir := fixture(t, "guide")
			before := filesOf(t, dir)
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
