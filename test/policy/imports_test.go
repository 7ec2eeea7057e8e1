// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kube-migrator/kube-migrator"

// listed is what `go list -json` says about a package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func (l listed) name() string { return strings.TrimPrefix(l.ImportPath, module+"/") }

func (l listed) below(folder string) bool { return below(l.name(), folder) }

func TestEveryPackageImportsOnlyWhatTheTableAllows(t *testing.T) {
	for _, problem := range importProblems(goList(t), allowed) {
		t.Error(problem)
	}
}

func TestImportTableNoticesEveryKindOfProblem(t *testing.T) {
	table := map[string][]string{"a": {"b"}, "b": nil, "gone": nil}
	packages := []listed{
		{ImportPath: module + "/a", Imports: []string{module + "/b", "fmt"}},
		{ImportPath: module + "/b", Imports: []string{module + "/a"}},
		{ImportPath: module + "/new"},
	}
	want := []string{
		"b imports a, which the table does not allow",
		"new is not in the table of allowed imports: add it, with what it may import",
		"the table has a line for gone, which is no package of this module",
	}
	if got := importProblems(packages, table); !slices.Equal(got, want) {
		t.Errorf("problems:\n got %q\nwant %q", got, want)
	}
}

// importProblems compares packages with the table, sorted.
func importProblems(packages []listed, table map[string][]string) []string {
	var problems []string
	gone := maps.Clone(table)
	for _, pkg := range packages {
		delete(gone, pkg.name())
		permitted, ok := table[pkg.name()]
		if !ok {
			problems = append(problems, pkg.name()+" is not in the table of allowed imports: add it, with what it "+
				"may import")
			continue
		}
		for _, imported := range pkg.Imports {
			if name, ours := strings.CutPrefix(imported, module+"/"); ours && !slices.Contains(permitted, name) {
				problems = append(problems, pkg.name()+" imports "+name+", which the table does not allow")
			}
		}
	}
	for name := range gone {
		problems = append(problems, "the table has a line for "+name+", which is no package of this module")
	}
	slices.Sort(problems)
	return problems
}

// below reports whether path is prefix or lies in it.
func below(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// goList returns the packages of all modules of the workspace.
func goList(t *testing.T) []listed {
	t.Helper()
	args := []string{"list", "-json=ImportPath,Imports,Deps"}
	for _, m := range modules(t) {
		args = append(args, "./"+path.Join(m.folder, "..."))
	}
	decoder := json.NewDecoder(bytes.NewReader(command(t, "go", args...)))
	var packages []listed
	for {
		var pkg listed
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		packages = append(packages, pkg)
	}
	if len(packages) == 0 {
		t.Fatal("go list found no packages")
	}
	return packages
}

// command runs a command in the repository's root and returns what it prints.
func command(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := inRoot(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.Bytes())
	}
	return out
}

func inRoot(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	return cmd
}
