// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Code that does not compile stops a plan only where the kind is concerned. The version's own package has to compile,
// and what it imports. In a package that uses the version, everything is rewritten by the identity of what it names, so
// it has to be understood: the one thing that it may lack are packages of the project itself, such as mocks that git
// ignores. Types of packages that belong to others decide what code does with the kind, in setups of webhooks, say.

// leaveIgnored takes packages that git ignores as a whole, and that do not compile, out of the project: they are made
// again from something else.
func (g *gathered) leaveIgnored(ctx context.Context) (report finding.Report) {
	g.ignored, g.left = ignoredFiles{}, map[string]bool{}
	for _, broken := range g.project.Broken {
		at := slices.IndexFunc(g.project.Packages, func(p *project.Package) bool { return p.Path == broken.Path })
		if at < 0 {
			continue
		}
		pkg := g.project.Packages[at]
		var files []string
		for _, file := range pkg.Files {
			files = append(files, file.Path)
		}
		ignored := git.Ignored(ctx, g.project.Root, files)
		maps.Copy(g.ignored, ignored)
		if !slices.ContainsFunc(files, func(file string) bool { return !ignored[file] }) {
			g.left[broken.Path] = true
			g.project.Packages = slices.Delete(g.project.Packages, at, at+1)
			report.Note(pkg.Dir, "skipped: it does not compile, and git ignores it, so that what has made it has to make "+
				"it again: %s", broken.First())
		}
	}
	return report
}

// checkBroken refuses a project in which the kinds' own code does not compile, and says what becomes of other code that
// does not. What is not understood leaves the project: nothing is changed in it.
func (g *gathered) checkBroken(ctx context.Context) (report finding.Report, err error) {
	for _, broken := range g.project.Broken {
		if broken.Path == g.old.Package.Path && !broken.InTests {
			return report, project.DoesNotCompile(broken.Problems[0])
		}
	}
	if needed := g.project.DependsOn(g.old.Package, false); needed != nil {
		return report, project.DoesNotCompile(needed.Problems[0])
	}
	for _, pkg := range g.project.Packages {
		if !g.uses(pkg) {
			continue
		}
		if needed := g.project.DependsOn(pkg, true); needed != nil {
			report.Note(pkg.Dir, "uses %s, which does not compile, so that some types in it are not known: look through "+
				"it for the version as a value, and for webhooks", needed.Path)
		}
	}
	report.Add(g.leaveIgnored(ctx))
	for _, broken := range g.project.Broken {
		at := slices.IndexFunc(g.project.Packages, func(p *project.Package) bool { return p.Path == broken.Path })
		switch {
		case g.left[broken.Path]:
		case at < 0:
			report.Block("", "%s cannot be read, so that it is not known whether it uses %s: %s", broken.Path,
				g.request.From, broken.First())
		case !g.isUnderstood(g.project.Packages[at], broken, &report) && g.project.Packages[at] != g.old.Package:
			g.project.Packages = slices.Delete(g.project.Packages, at, at+1)
		}
	}
	return report, nil
}

// isUnderstood reports whether a broken package can be changed, and says what becomes of it.
func (g *gathered) isUnderstood(pkg *project.Package, broken project.Broken, report *finding.Report) bool {
	missing, onlyThat := broken.Lacks(g.ignored.counts)
	for _, name := range missing {
		onlyThat = onlyThat && g.project.IsOwn(name)
	}
	switch {
	case !g.mayUse(pkg):
		report.Note(pkg.Dir, "skipped: it does not compile, and does not use %s: %s", g.request.From, broken.First())
		return false
	case onlyThat && len(missing) > 0:
		report.Note(pkg.Dir, "imports %s, whose code is not there: the code is changed as far as it is known without. Generate "+
			"that, and compile", strings.Join(missing, ", "))
		return true
	case onlyThat:
		report.Note(pkg.Dir, "does not compile because of files that git ignores: generate them again, and compile (%s)",
			broken.First())
		return true
	case !g.consumes(pkg) && g.request.Old != request.OldRemove:
		report.Note(pkg.Dir, "skipped: it does not compile, and goes on using %s (--consumers): %s", g.request.From,
			broken.First())
		return false
	}
	report.Block(pkg.Dir, "does not compile, so that it is not certain what it does with %s: %s. Correct it first, or "+
		"leave it to the old version with --consumers", g.request.From, broken.First())
	return false
}

// uses reports whether a package is the version's, or has a file that imports it.
func (g *gathered) uses(pkg *project.Package) bool {
	return pkg == g.old.Package || slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return source.Imports(f.Syntax, g.old.Package.Path)
	})
}

// mayUse is uses for code of which not even the imports may have been understood.
func (g *gathered) mayUse(pkg *project.Package) bool {
	return g.uses(pkg) || slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return bytes.Contains(f.Source, []byte(strconv.Quote(g.old.Package.Path)))
	})
}

// consumes reports whether a package has files that are to use the new names.
func (g *gathered) consumes(pkg *project.Package) bool {
	return pkg == g.old.Package || slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return g.request.Consumes(f.Path)
	})
}

// ignoredFiles are files that git ignores, by their paths.
type ignoredFiles map[string]bool

// counts reports whether problems in a file matter: what git ignores is made again.
func (i ignoredFiles) counts(file string) bool { return !i[file] }
