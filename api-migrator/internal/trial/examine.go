// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// envtest starts an API server for tests.
const envtest = "sigs.k8s.io/controller-runtime/pkg/envtest"

// listed is what go list says about a package.
type listed struct {
	ImportPath                string
	Deps, GoFiles, CgoFiles   []string
	TestImports, XTestImports []string
}

// affected are the packages that depend on one of roots, by themselves or by their tests, and the roots; sorted.
func affected(packages []listed, roots []string) []string {
	var found []string
	depends := map[string]bool{} // without tests
	for _, one := range packages {
		depends[one.ImportPath] = slices.Contains(roots, one.ImportPath) ||
			slices.ContainsFunc(roots, func(root string) bool { return slices.Contains(one.Deps, root) })
	}
	for _, one := range packages {
		if depends[one.ImportPath] ||
			slices.ContainsFunc(one.TestImports, func(path string) bool { return depends[path] }) ||
			slices.ContainsFunc(one.XTestImports, func(path string) bool { return depends[path] }) {
			found = append(found, one.ImportPath)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// added are the packages that are not in before.
func added(packages, before []listed) []string {
	var found []string
	for _, one := range packages {
		if !slices.ContainsFunc(before, func(old listed) bool { return old.ImportPath == one.ImportPath }) {
			found = append(found, one.ImportPath)
		}
	}
	return found
}

// list finds the packages that depend on roots, those that were checked before, and those that are new since.
func (t *trying) list(ctx context.Context, roots []string, before *State) (*State, error) {
	out, err := t.run(ctx, t.root, "go", "list", "-e", "-json=ImportPath,Deps,GoFiles,CgoFiles,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(out.stderr))
	}
	state := &State{Fails: map[string]string{}, Tests: map[Test]bool{}}
	decoder := json.NewDecoder(bytes.NewReader(out.stdout))
	for {
		var one listed
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		state.all = append(state.all, one)
	}
	if before != nil {
		roots = slices.Concat(roots, before.Packages, added(state.all, before.all))
	}
	state.Packages = affected(state.all, roots)
	return state, nil
}

// check asks the go command about the packages of a state.
func (t *trying) check(ctx context.Context, state *State) error {
	if err := t.compile(ctx, state); err != nil {
		return err
	}
	return t.test(ctx, state)
}

// compile finds the packages that do not build, or that go vet does not accept.
func (t *trying) compile(ctx context.Context, state *State) error {
	var code []string // packages that have more than tests
	for _, one := range state.all {
		if slices.Contains(state.Packages, one.ImportPath) && len(one.GoFiles)+len(one.CgoFiles) > 0 {
			code = append(code, one.ImportPath)
		}
	}
	for _, what := range []string{"vet", "build"} { // build last: it says more
		args := slices.Concat([]string{"vet"}, state.Packages)
		if what == "build" { // a program that is built alone would be written into the project otherwise
			args = slices.Concat([]string{"build", "-o", os.DevNull}, code)
		}
		out, err := t.run(ctx, t.root, "go", args...)
		if !ran(err) {
			return fmt.Errorf("go %s: %w", what, err)
		}
		failed := failedPackages(string(out.stderr), t.row.Project)
		if err != nil && len(failed) == 0 {
			return fmt.Errorf("go %s: %w: %s", what, err, bytes.TrimSpace(out.stderr))
		}
		for _, name := range failed {
			state.Fails[name] = what
		}
		fmt.Fprintf(t.Log, "%s", out.stderr)
	}
	return nil
}

// failedPackages reads the lines "# PACKAGE", "# PACKAGE [PACKAGE.test]" and "# [PACKAGE]" of go build and go vet, and the
// lines FOLDER/FILE:LINE:COLUMN, since go vet may write these alone. Folders are those of the module.
func failedPackages(stderr, module string) []string {
	var found []string
	for line := range strings.Lines(stderr) {
		if file, _, ok := strings.Cut(line, ".go:"); ok && !strings.ContainsAny(file, " \t") && filepath.IsLocal(file) {
			found = append(found, path.Join(module, path.Dir(file)))
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "#" {
			continue
		}
		name := strings.Trim(words[1], "[]")
		found = append(found, strings.TrimSuffix(strings.TrimSuffix(name, ".test"), "_test"))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// test runs the tests of the packages that build. Tests that need an API server are not run: without its binaries they
// fail at once.
func (t *trying) test(ctx context.Context, state *State) error {
	args := []string{"test", "-json", "-vet=off", "-timeout", t.TestTimeout.String()}
	none := len(args)
	for _, one := range state.all {
		imports := slices.Concat(one.TestImports, one.XTestImports)
		switch {
		case !slices.Contains(state.Packages, one.ImportPath) || len(imports) == 0:
		case slices.Contains(imports, envtest):
			state.needCluster++
		default:
			args = append(args, one.ImportPath)
		}
	}
	if len(args) == none {
		return nil
	}
	out, err := t.run(ctx, t.root, "go", args...)
	if !ran(err) {
		return fmt.Errorf("go test: %w", err)
	}
	if state.Tests, err = passed(out.stdout); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// passed reads what go test -json prints: the tests that ended, and whether they passed. Subtests count with theirs,
// since some have names that change.
func passed(out []byte) (map[Test]bool, error) {
	tests := map[Test]bool{}
	decoder := json.NewDecoder(bytes.NewReader(out))
	for {
		var event struct{ Action, Package, Test string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return tests, nil
		} else if err != nil {
			return nil, err
		}
		if event.Test == "" || strings.Contains(event.Test, "/") {
			continue
		}
		switch event.Action {
		case "pass", "fail":
			tests[Test{event.Package, event.Test}] = event.Action == "pass"
		}
	}
}
