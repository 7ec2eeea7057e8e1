// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Types say which packages exchange objects of a kind, unless they have the objects as runtime.Object. Two uses of such
// an object depend on its version: a fake client, and a type switch or assertion, accept only the versions that they
// know. Packages with either stay together with those with which they exchange objects.

// leaveWith leaves packages on the old version, and those with which they exchange what moves. Objects may pass through a
// package that does not name the version: it then counts as one that tells versions apart, since another one does for it.
func (c *clients) leaveWith(left map[*project.Package]bool) {
	tells := map[*project.Package]bool{}
	for _, pkg := range c.Project.Packages {
		tells[pkg] = c.tellsVersions(pkg)
	}
	for more := true; more; {
		more = false
		for _, pkg := range c.Project.Packages {
			consumer := c.isConsumer(pkg)
			if left[pkg] || pkg == c.Old.Package || !consumer && c.hasGenerated(pkg) {
				continue
			}
			for _, other := range c.Project.Packages {
				if !left[other] || !c.exchange(pkg, other, tells) && !c.exchange(other, pkg, tells) {
					continue
				}
				left[pkg], tells[pkg], more = true, tells[pkg] || !consumer, true
				if pkg.Dir != other.Dir && consumer { // a package and its external tests go together
					c.Note(pkg.Dir, "goes on using %s, since %s does, with which it exchanges %s", c.Old.Name(), other.Dir,
						strings.Join(c.Request.Kinds, ", "))
				}
				break
			}
		}
	}
	for _, pkg := range c.Project.Packages {
		for _, file := range pkg.Files {
			if left[pkg] {
				c.left[file], c.clientsLag = true, true
				delete(c.clientUses, file)
			}
		}
	}
}

// isConsumer reports whether a package has code that would move to the new names.
func (c *clients) isConsumer(pkg *project.Package) bool {
	return pkg != c.Old.Package && slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return !f.Generated && c.Consumes(f) && source.Imports(f.Syntax, c.Old.Package.Path)
	})
}

// hasGenerated reports whether a package has files of a generated client.
func (c *clients) hasGenerated(pkg *project.Package) bool {
	return slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return c.generated[c.Project.Fset.Position(f.Syntax.Package).Filename]
	})
}

// exchange reports whether a package uses something of another one that has a type which moves, or that has objects of
// any type where one of the two tells versions apart.
func (c *clients) exchange(user, of *project.Package, tells map[*project.Package]bool) bool {
	for _, file := range user.Files {
		if !source.Imports(file.Syntax, of.Path) {
			continue
		}
		for ident, object := range file.Info.Uses {
			if object.Pkg() != nil && object.Pkg().Path() == of.Path && c.InFile(file, ident) &&
				(c.mentions(object.Type()) || (tells[user] || tells[of]) && hasObjects(object.Type())) {
				return true
			}
		}
	}
	return false
}

// tellsVersions reports whether what a package does with an object depends on its version although its static type does
// not say it: the package asks for the type, or gives the object to a fake client.
func (c *clients) tellsVersions(pkg *project.Package) bool {
	if !c.isConsumer(pkg) {
		return false
	}
	found := false
	for _, file := range pkg.Files {
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.TypeAssertExpr: // that of a type switch has no type
				found = found || c.isMoving(file, node.Type)
			case *ast.CaseClause:
				found = found || slices.ContainsFunc(node.List, func(one ast.Expr) bool { return c.isMoving(file, one) })
			case *ast.Ident:
				found = found || c.isOfFake(file.Info.Uses[node])
			}
			return !found
		})
	}
	return found
}

// isMoving reports whether an expression is a type that is made of one that moves.
func (c *clients) isMoving(file *project.File, one ast.Expr) bool {
	t, ok := file.Info.Types[one]
	return ok && t.IsType() && c.mentions(t.Type)
}

// isOfFake reports whether something is a function of a generated fake client that takes objects of any kind.
func (c *clients) isOfFake(object types.Object) bool {
	function, ok := object.(*types.Func)
	return ok && function.Pkg() != nil && function.Pkg().Name() == "fake" && function.Signature().Recv() == nil &&
		c.generated[c.Project.Fset.Position(function.Pos()).Filename] && hasObjects(function.Type())
}

// fakeKnows reports whether a fake client registers the new version too.
func (c *clients) fakeKnows(fake *types.Package) bool {
	at := slices.IndexFunc(c.Project.Packages, func(p *project.Package) bool { return p.Path == fake.Path() })
	return at >= 0 && slices.ContainsFunc(c.Project.Packages[at].Files, func(f *project.File) bool {
		return source.Imports(f.Syntax, c.ImportPath(NewPackage))
	})
}

// hasObjects reports whether something is an object of any kind, or a function that takes or returns one.
func hasObjects(t types.Type) bool {
	signature, ok := t.(*types.Signature)
	if !ok {
		return isObject(t)
	}
	for _, list := range []*types.Tuple{signature.Params(), signature.Results()} {
		for one := range list.Variables() {
			if isObject(one.Type()) {
				return true
			}
		}
	}
	return false
}

// isObject reports whether a type is a runtime.Object or a client.Object, or a list of them.
func isObject(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case interface{ Elem() types.Type }:
		return isObject(t.Elem())
	case *types.Named:
		return t.Obj().Name() == "Object" && t.Obj().Pkg() != nil && slices.Contains([]string{
			"k8s.io/apimachinery/pkg/runtime", "sigs.k8s.io/controller-runtime/pkg/client",
		}, project.Unvendored(t.Obj().Pkg().Path()))
	}
	return false
}
