// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Broken is a package that does not compile, as far as its types tell: it is not given to the compiler. Its files are read
// all the same, with types as far as they are known.
type Broken struct {
	// Path is how code imports it; that of an external test ends in _test.
	Path string
	// InTests: only its tests do not compile, so packages that import it are not concerned.
	InTests bool
	// Problems are what is wrong, in the order of the compiler; never empty.
	Problems []Problem
}

// Problem is something that the compiler, or the go command, says about code.
type Problem struct {
	// File is relative to the root; empty without a place.
	File string
	// Text is for users, with the place.
	Text string
	// Missing is an import for which there is no package, or a package of the project that declares nothing, if that is
	// the problem. What else uses the import is not reported then, since its types are unknown.
	Missing string
	message string
}

// First is the first problem with the package.
func (b Broken) First() string { return b.Problems[0].Text }

// Lacks returns the packages that are missing, if nothing else is wrong with the code that counts. Then everything
// that the code names besides is understood. Problems in files that do not count are left out.
func (b Broken) Lacks(counts func(file string) bool) (missing []string, onlyThat bool) {
	for _, problem := range b.Problems {
		switch {
		case !counts(problem.File):
		case problem.Missing == "":
			return nil, false
		case !slices.Contains(missing, problem.Missing):
			missing = append(missing, problem.Missing)
		}
	}
	return missing, true
}

// Compiles is an error that names the first place where the code does not compile.
func (p *Project) Compiles() error {
	if len(p.Broken) == 0 {
		return nil
	}
	return DoesNotCompile(p.Broken[0].Problems[0])
}

// DoesNotCompile is the error for code that has to compile.
func DoesNotCompile(problem Problem) error {
	return hint.Errorf("go vet ./...", "the code does not compile: %s", problem.Text)
}

// NewProblem is the first problem that p has, and that was not there before, in an earlier state of the same tree; nil
// without one. Problems in files that do not count are left out.
func (p *Project) NewProblem(before []Broken, counts func(file string) bool) *Problem {
	known := map[string]bool{}
	for _, broken := range before {
		for _, problem := range broken.Problems {
			known[broken.Path+" "+problem.key()] = true
		}
	}
	for _, broken := range p.Broken {
		for _, problem := range broken.Problems {
			if counts(problem.File) && !known[broken.Path+" "+problem.key()] {
				return &problem
			}
		}
	}
	return nil
}

// key is the same for one problem in two copies of a tree, also where lines have moved.
func (p Problem) key() string {
	if p.Missing != "" {
		return p.Missing
	}
	return p.message
}

// DependsOn returns a broken package that another one needs; nil if everything that it needs compiles. What only tests
// need counts for the tests of the package itself, and only if that is asked for.
func (p *Project) DependsOn(pkg *Package, tests bool) *Broken {
	if !slices.ContainsFunc(p.Broken, func(b Broken) bool { return !b.InTests }) {
		return nil
	}
	seen := map[string]bool{pkg.Path: true}
	for queue := []*Package{pkg}; len(queue) > 0; queue = queue[1:] {
		for _, other := range p.Packages {
			if seen[other.Path] || !slices.ContainsFunc(queue[0].Files, func(f *File) bool {
				return (!f.Test || tests && queue[0] == pkg) && source.Imports(f.Syntax, other.Path)
			}) {
				continue
			}
			if i := slices.IndexFunc(p.Broken, func(b Broken) bool { return b.Path == other.Path && !b.InTests }); i >= 0 {
				return &p.Broken[i]
			}
			seen[other.Path] = true
			queue = append(queue, other)
		}
	}
	return nil
}

// IsOwn reports whether an import path belongs to one of the project's modules.
func (p *Project) IsOwn(importPath string) bool {
	return slices.ContainsFunc(p.Workspace.Modules, func(m Module) bool {
		return importPath == m.Path || strings.HasPrefix(importPath, m.Path+"/")
	})
}

// NotGenerated returns the packages of the project that a broken package imports and that are not there, if nothing
// else is wrong with it: a generator makes them.
func (p *Project) NotGenerated(broken Broken) []string {
	missing, onlyThat := broken.Lacks(func(string) bool { return true })
	if !onlyThat || slices.ContainsFunc(missing, func(name string) bool { return !p.IsOwn(name) }) {
		return nil
	}
	return missing
}

// takeBroken records which packages do not compile. A test variant of a package repeats the package's own problems. The
// programs that run tests are left out: the go command writes them.
func (p *Project) takeBroken(loaded []*packages.Package) {
	for _, variants := range []bool{false, true} { // the plain packages first
		for _, from := range loaded {
			if (from.ForTest != "") == variants && !strings.HasSuffix(from.PkgPath, ".test") {
				p.addProblems(from.PkgPath, p.problemsOf(from), variants)
			}
		}
	}
	slices.SortStableFunc(p.Broken, func(a, b Broken) int { return strings.Compare(a.Path, b.Path) })
}

func (p *Project) addProblems(name string, problems []Problem, inTests bool) {
	at := slices.IndexFunc(p.Broken, func(b Broken) bool { return b.Path == name })
	switch {
	case len(problems) == 0:
	case at < 0:
		p.Broken = append(p.Broken, Broken{Path: name, InTests: inTests, Problems: problems})
	default:
		for _, one := range problems {
			if !slices.Contains(p.Broken[at].Problems, one) {
				p.Broken[at].Problems = append(p.Broken[at].Problems, one)
			}
		}
	}
}

// importCycle is how the go command calls imports that form a circle.
const importCycle = "import cycle"

func isOfCircle(one packages.Error) bool {
	return one.Kind == packages.ListError && strings.Contains(one.Msg, importCycle)
}

// problemsOf are those of one package. What the go command says about it as a whole repeats what the type checker says
// about a place, which is clearer, unless it is about imports that form a circle.
func (p *Project) problemsOf(from *packages.Package) []Problem {
	const noImport = "could not import "
	var placed, general []Problem
	for _, one := range from.Errors {
		at, _, hasPlace := strings.Cut(one.Pos, ":")
		text := strings.ReplaceAll(one.Msg, p.Root+string(filepath.Separator), "")
		problem := Problem{message: text, Text: text}
		switch {
		case isOfCircle(one):
			placed = append(placed, problem)
			continue
		case one.Kind == packages.ListError || !hasPlace:
			general = append(general, problem)
			continue
		}
		problem.File = p.relative(at)
		problem.Text = strings.ReplaceAll(one.Pos+": ", p.Root+string(filepath.Separator), "") + problem.Text
		if name, isImport := strings.CutPrefix(one.Msg, noImport); isImport && !strings.Contains(one.Msg, importCycle) {
			problem.Missing, _, _ = strings.Cut(name, " ")
		}
		if name, isName := strings.CutPrefix(one.Msg, "undefined: "); isName {
			problem.Missing = p.emptyImport(from, at, name)
		}
		placed = append(placed, problem)
	}
	if len(placed) > 0 {
		return placed
	}
	return general
}

// emptyImport is the package of the project that a file takes a name such as mocks.Store from, if the package declares
// nothing: git has a file that keeps the folder, and ignores those that a generator writes into it.
func (p *Project) emptyImport(from *packages.Package, file, name string) string {
	qualifier, _, qualified := strings.Cut(name, ".")
	for _, syntax := range from.Syntax {
		if !qualified || from.Fset.Position(syntax.Package).Filename != file {
			continue
		}
		for _, spec := range syntax.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			imported := from.Imports[path]
			if err != nil || imported == nil || imported.Types == nil || !p.IsOwn(path) {
				continue
			}
			named := imported.Name
			if spec.Name != nil {
				named = spec.Name.Name
			}
			if named == qualifier && imported.Types.Scope().Len() == 0 {
				return path
			}
		}
	}
	return ""
}
