// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package trial tries api-migrator on a project of others: it copies the project, moves kinds in the copy, and compares
// what builds, vets and passes its tests before and after. A Row of a Markdown table holds what came out.
//
// It never changes the project itself, and runs api-migrator as its users do, as a program. What it concludes it
// concludes in pure functions: affected, Compare, origin, Row.String, Insert.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Options say what is tried.
type Options struct {
	// Binary is api-migrator.
	Binary string
	// Module is a module and its version, as the go command downloads it: example.com/module@v1.2.3.
	Module string
	// Dir is the root folder of a project, instead of Module.
	Dir string
	// Kinds, From and To are those of api-migrator plan.
	Kinds, From, To string
	// PlanArgs are further arguments of api-migrator plan.
	PlanArgs []string
	// Work is the folder in which the copy and all that is temporary are made. It has to exist, and stays.
	Work string
	// TestTimeout bounds the tests of one package.
	TestTimeout time.Duration
	// ByHand says what is left to do for users, in a few words; only a reader of the change can know it.
	ByHand string
	// Log receives what is being done, and what the programs that fail say.
	Log io.Writer
}

// Row is the outcome for one project.
type Row struct {
	// Project and Version are the module; Version is empty for a folder.
	Project, Version string
	// Origin is what made the project, such as kubebuilder 3, and Layout where its versions are.
	Origin, Layout string
	// Packages is how many the module has, and Affected how many of these depend on the version, by their tests too.
	Packages, Affected int
	// Move is what was moved.
	Move        string
	Plan, Apply Usage
	// TestsBefore is how many tests passed before, and TestsAfter how many of these pass after the move.
	TestsBefore, TestsAfter int
	// NeedCluster is how many affected packages have tests that start an API server and therefore were not run.
	NeedCluster int
	// Findings and Blockers are how many the plan has.
	Findings, Blockers int
	// Problems are what was right before and is not any more, including what verify says for the first time, and what a
	// second apply changes.
	Problems []string
	ByHand   string
}

// Run tries api-migrator on a project. An error is something that kept it from finding out; a project with which
// api-migrator has problems is a Row.
func Run(ctx context.Context, options Options) (*Row, error) {
	t := &trying{Options: options, root: filepath.Join(options.Work, "project"),
		row: Row{Move: describe(options), ByHand: options.ByHand}}
	if err := t.copy(ctx); err != nil {
		return nil, err
	}
	before, err := t.inspect(ctx)
	if err != nil {
		return nil, err
	}
	from, ok := before.find(options.From)
	if !ok {
		return nil, hint.Errorf(options.Binary+" inspect "+t.root, "the project has no %s", options.From)
	}
	t.row.Layout = from.Layout
	folders := []string{before.importPath(from)}
	stateBefore, err := t.list(ctx, folders, nil)
	if err != nil {
		return nil, err
	}
	t.row.Packages, t.row.Affected = len(stateBefore.all), len(stateBefore.Packages)
	if planned, err := t.plan(ctx); err != nil || !planned {
		return &t.row, err
	}
	t.log("what builds, vets and passes its tests before")
	if err := t.check(ctx, stateBefore); err != nil {
		return nil, err
	}
	t.row.NeedCluster = stateBefore.needCluster
	saidBefore := t.verify(ctx)
	if applied, err := t.apply(ctx); err != nil || !applied {
		return &t.row, err
	}
	after, err := t.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if to, ok := after.find(t.to); ok {
		folders = append(folders, after.importPath(to))
	}
	t.log("what builds, vets and passes its tests after")
	stateAfter, err := t.list(ctx, folders, stateBefore)
	if err != nil {
		return nil, err
	}
	if err := t.check(ctx, stateAfter); err != nil {
		return nil, err
	}
	comparison := Compare(*stateBefore, *stateAfter)
	t.row.TestsBefore, t.row.TestsAfter = comparison.PassedBefore, comparison.PassedAfter
	t.row.Problems = append(t.row.Problems, comparison.Problems...)
	for _, line := range t.verify(ctx) {
		if !slices.Contains(saidBefore, line) {
			t.row.Problems = append(t.row.Problems, "verify: "+line)
		}
	}
	for _, problem := range t.row.Problems {
		t.log("problem: " + problem)
	}
	return &t.row, nil
}

// trying is one trial under way.
type trying struct {
	Options

	root string // of the copy
	to   string // GROUP/VERSION
	row  Row
}

func (t *trying) log(text string) { fmt.Fprintln(t.Log, text) }

// describe is what is moved, for a reader.
func describe(o Options) string {
	to := o.To
	if group, _, ok := strings.Cut(o.From, "/"); ok && strings.HasPrefix(to, group+"/") {
		to = path.Base(to)
	}
	return strings.Join(append([]string{o.Kinds, o.From, "→", to}, o.PlanArgs...), " ")
}

// copy copies the project into a git repository of its own.
func (t *trying) copy(ctx context.Context) error {
	from := t.Dir
	if t.Module != "" {
		t.log("download " + t.Module)
		out, err := t.run(ctx, t.Work, "go", "mod", "download", "-json", t.Module)
		var downloaded struct{ Dir, Error string }
		if jsonErr := json.Unmarshal(out.stdout, &downloaded); jsonErr != nil || downloaded.Dir == "" {
			return hint.Errorf("go mod download "+t.Module, "download module: %s %w", downloaded.Error, first(err, jsonErr))
		}
		from = downloaded.Dir
		t.row.Project, t.row.Version, _ = strings.Cut(t.Module, "@")
	}
	if err := tree.Copy(from, t.root); err != nil {
		return fmt.Errorf("copy project: %w", err)
	}
	if err := dropListOfVendored(t.root); err != nil {
		return err
	}
	if t.row.Project == "" {
		goMod, err := os.ReadFile(filepath.Join(t.root, "go.mod"))
		if err != nil {
			return fmt.Errorf("read module: %w", err)
		}
		t.row.Project = modulePath(string(goMod))
	}
	paths, err := tree.Folder(t.root).Paths()
	if err != nil {
		return fmt.Errorf("list files: %w", err)
	}
	t.row.Origin = origin(paths, func(name string) string {
		content, _ := os.ReadFile(filepath.Join(t.root, filepath.FromSlash(name))) // what is not there says nothing
		return string(content)
	})
	if err := t.mustRun(ctx, "git", "init", "-q"); err != nil {
		return err
	}
	return t.commit(ctx, "before")
}

// dropListOfVendored deletes vendor/modules.txt if it is all that the folder has. The proxy leaves out packages that are
// vendored, but not their list, and the go command would look for them there because of it.
func dropListOfVendored(root string) error {
	folder := filepath.Join(root, "vendor")
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read vendor: %w", err)
	}
	if len(entries) != 1 || entries[0].Name() != "modules.txt" {
		return nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("delete the list of vendored packages: %w", err)
	}
	return nil
}

// commit commits everything, ignored files too: a module has only files that its authors published.
func (t *trying) commit(ctx context.Context, message string) error {
	if err := t.mustRun(ctx, "git", "add", "-f", "-A", "."); err != nil {
		return err
	}
	return t.mustRun(ctx, "git", "-c", "user.name=trial", "-c", "user.email=trial@example.com",
		"-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", message)
}

func (t *trying) planFile() string { return filepath.Join(t.Work, "plan.yaml") }

// plan makes the plan; planned is false if it is refused or has blockers, which are problems.
func (t *trying) plan(ctx context.Context) (planned bool, err error) {
	args := []string{"plan", "-C", t.root, "--kind", t.Kinds, "--from", t.From, "--out", t.planFile()}
	t.to = t.From
	if t.To != "" {
		args, t.to = append(args, "--to", t.To), t.To
	}
	out, err := t.run(ctx, t.root, t.Binary, append(args, t.PlanArgs...)...)
	t.row.Plan = out.usage
	fmt.Fprintf(t.Log, "%s", out.stderr)
	content, notThere := os.ReadFile(t.planFile())
	if notThere != nil {
		t.row.Problems = append(t.row.Problems, "plan: "+firstError(string(out.stderr), err))
		return false, nil //nolint:nilerr // a plan that is refused is an outcome
	}
	plan, err := move.Decode(content)
	if err != nil {
		return false, err
	}
	t.row.Findings, t.row.Blockers = len(plan.Findings), len(plan.Blockers)
	if len(plan.Blockers) > 0 {
		for _, blocker := range plan.Blockers {
			t.row.Problems = append(t.row.Problems, "blocker: "+blocker.String())
		}
	}
	return len(plan.Blockers) == 0, nil
}

// apply carries the plan out, twice; applied is false if it does not work, which is a problem.
func (t *trying) apply(ctx context.Context) (applied bool, err error) {
	out, err := t.run(ctx, t.root, t.Binary, "apply", "-C", t.root, t.planFile())
	t.row.Apply = out.usage
	if err != nil {
		fmt.Fprintf(t.Log, "%s", out.stderr)
		t.row.Problems = append(t.row.Problems, "apply: "+firstError(string(out.stderr), err))
		return false, nil
	}
	if err := t.commit(ctx, "after"); err != nil {
		return false, err
	}
	if out, err = t.run(ctx, t.root, t.Binary, "apply", "-C", t.root, t.planFile()); err != nil {
		t.row.Problems = append(t.row.Problems, "second apply: "+firstError(string(out.stderr), err))
	}
	status, err := t.run(ctx, t.root, "git", "status", "--porcelain")
	if err != nil {
		return false, fmt.Errorf("git status: %w", err)
	}
	for line := range strings.Lines(string(status.stdout)) {
		t.row.Problems = append(t.row.Problems, "second apply changes "+strings.TrimSpace(line))
	}
	return true, nil
}

// verify is what api-migrator verify says.
func (t *trying) verify(ctx context.Context) []string {
	out, err := t.run(ctx, t.root, t.Binary, "verify", t.root)
	said := strings.FieldsFunc(string(out.stdout), func(r rune) bool { return r == '\n' })
	if err != nil && len(said) == 0 {
		said = []string{firstError(string(out.stderr), err)}
	}
	return said
}

// inspection is what a trial needs of api-migrator inspect.
type inspection struct {
	Module   string
	Versions []inspected
}

type inspected struct{ Group, Version, Folder, Layout string }

func (t *trying) inspect(ctx context.Context) (*inspection, error) {
	out, err := t.run(ctx, t.root, t.Binary, "inspect", "-o", "json", t.root)
	if err != nil {
		return nil, fmt.Errorf("inspect: %s", firstError(string(out.stderr), err))
	}
	found := &inspection{}
	if err := json.Unmarshal(out.stdout, found); err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	return found, nil
}

func (i *inspection) find(groupVersion string) (inspected, bool) {
	for _, one := range i.Versions {
		if one.Group+"/"+one.Version == groupVersion {
			return one, true
		}
	}
	return inspected{}, false
}

func (i *inspection) importPath(version inspected) string { return path.Join(i.Module, version.Folder) }
