// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// Clients, listers, informers and apply configurations that are generated have a package or a method for each version.
// A package that takes a kind that moves from them follows if all that it uses is generated for the new version too. If
// not, it goes on using the old version, and so do the packages with which it exchanges objects of the kind: the code
// compiles, and a later plan moves it.

// ClientUse is what becomes of a use of a generated client that follows to the new version.
type ClientUse struct {
	// Selector is the name of a method that gets another name, or a name of a package in the place of which another one
	// stands.
	Selector *ast.SelectorExpr
	Method   string // the new name of the method; empty for a package
	Package  string // the import path of the other package
	// Group is the new name of the method that Method is called on the result of; empty if it stays.
	Group string
}

// clients finds the uses of generated clients.
type clients struct {
	*decision
	generated map[string]bool       // files, by their absolute paths
	known     map[*types.Named]bool // whether generated types are about a kind that moves
}

// clientUse is one use, before it is known what becomes of its package.
type clientUse struct {
	ClientUse
	file    *project.File
	at      *ast.Ident
	instead string // empty if the code follows from other uses
	fake    bool   // a function of the fake client, which takes objects of any kind
	follows bool
}

// ClientUses are the edits of a file that follow from generated clients of the new version.
func (l *Layout) ClientUses(file *project.File) []ClientUse { return l.clientUses[file] }

// followClients decides for each package that uses generated clients.
func (l *decision) followClients() {
	c := &clients{decision: l, generated: map[string]bool{}, known: map[*types.Named]bool{}}
	for _, pkg := range l.Project.Packages {
		for _, file := range pkg.Files {
			if file.Generated && path.Base(file.Path) != project.DeepCopyFile && !file.Registers() &&
				source.DoubleMaker(file.Source) == "" && !source.NamesTypesAlone(file.Source) && !slices.Contains(l.Dirs(), pkg.Dir) {
				c.generated[l.Project.Fset.Position(file.Syntax.Package).Filename] = true
			}
		}
	}
	if len(c.generated) == 0 {
		return
	}
	left := map[*project.Package]bool{}
	for _, pkg := range l.Project.Packages {
		uses := c.usesOf(pkg)
		left[pkg] = slices.ContainsFunc(uses, func(u clientUse) bool { return !u.follows })
		if left[pkg] {
			c.noteUses(uses)
			continue
		}
		for _, use := range uses {
			if use.Selector != nil {
				l.clientUses[use.file] = append(l.clientUses[use.file], use.ClientUse)
			}
		}
	}
	c.leaveWith(left)
}

// noteUses says what is in the way of a package that stays on the old version: once for each file and name.
func (c *clients) noteUses(uses []clientUse) {
	type reason struct {
		file *project.File
		text string
	}
	lines := map[reason][]int{}
	into, again, fakeAgain := c.Version, "plan again; or ", "plan again"
	if c.Request.Succeeds() {
		into = c.Request.To
	}
	if c.Request.ToKind != "" { // then no plan moves importers alone
		again, fakeAgain = "", "move the package to it by hand"
	}
	for _, use := range uses {
		var text string
		switch {
		case use.fake && !use.follows:
			text = fmt.Sprintf("gives objects to %s of a client that is generated for %s and refuses those of %s: the package goes "+
				"on using the old version. Generate the client of %s, and %s", use.at.Name, c.Old.Name(), into, into, fakeAgain)
		case use.instead != "":
			text = fmt.Sprintf("uses %s of a client that is generated for %s: the package goes on using that version. Generate "+
				"the client of %s, and %swrite %s then", use.at.Name, c.Old.Name(), into, again, use.instead)
		default:
			continue
		}
		at := reason{use.file, text}
		if line := c.Project.Fset.Position(use.at.Pos()).Line; !slices.Contains(lines[at], line) {
			lines[at] = append(lines[at], line)
		}
	}
	for at, all := range lines {
		slices.Sort(all)
		c.Note(fmt.Sprintf("%s:%d", at.file.Path, all[0]), "%s%s", at.text, finding.OtherLines(all))
	}
}

func (c *clients) usesOf(pkg *project.Package) (uses []clientUse) {
	if pkg == c.Old.Package || slices.Contains(c.Dirs(), pkg.Dir) {
		return nil
	}
	for _, file := range pkg.Files {
		if file.Generated || !c.Consumes(file) {
			continue
		}
		ast.Inspect(file.Syntax, func(node ast.Node) bool {
			ident, ok := node.(*ast.Ident)
			if !ok {
				return true
			}
			switch object := file.Info.Uses[ident]; {
			case object == nil || object.Pkg() == nil || !c.generated[c.Project.Fset.Position(object.Pos()).Filename]:
			case c.isOfFake(object):
				if c.isConsumer(pkg) {
					uses = append(uses, clientUse{file: file, at: ident, fake: true, follows: c.fakeKnows(object.Pkg())})
				}
			case c.isAbout(object):
				uses = append(uses, c.use(file, ident, object))
			}
			return true
		})
	}
	return uses
}

// isAbout reports whether something that is generated is about a kind that moves, in the old version.
func (c *clients) isAbout(object types.Object) bool {
	if c.mentions(object.Type()) {
		return true
	}
	elements := strings.Split(object.Pkg().Path(), "/")
	return object.Parent() == object.Pkg().Scope() && c.isNamedAfterMoved(object.Name()) &&
		slices.ContainsFunc(elements, func(e string) bool { return strings.HasPrefix(e, "applyconfiguration") }) &&
		slices.Contains(elements, c.Old.Version) && slices.Contains(elements, strings.ReplaceAll(c.GroupWord(), "-", ""))
}

// isNamedAfterMoved reports whether the longest name of a kind within a name is that of one that moves.
func (c *clients) isNamedAfterMoved(name string) bool {
	longest := ""
	for _, kind := range c.Old.Kinds {
		if strings.Contains(name, kind.Name) && len(kind.Name) > len(longest) {
			longest = kind.Name
		}
	}
	return slices.Contains(c.Request.Kinds, longest)
}

// mentions reports whether a type is made of one that moves, also by methods of generated types that are named after
// the kind.
func (c *clients) mentions(t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		d := c.Graph.Owner(t.Obj())
		if d != nil {
			return c.DestinationOf(d) == split.New
		}
		for argument := range t.TypeArgs().Types() {
			if c.mentions(argument) {
				return true
			}
		}
		return c.mentionsInside(t)
	case interface{ Elem() types.Type }:
		if m, ok := t.(*types.Map); ok && c.mentions(m.Key()) {
			return true
		}
		return c.mentions(t.Elem())
	case *types.Signature:
		return c.mentionsAny(t.Params()) || c.mentionsAny(t.Results())
	}
	return false
}

func (c *clients) mentionsAny(list *types.Tuple) bool {
	for one := range list.Variables() {
		if c.mentions(one.Type()) {
			return true
		}
	}
	return false
}

// mentionsInside looks into a generated type.
func (c *clients) mentionsInside(t *types.Named) bool {
	if found, ok := c.known[t]; ok {
		return found
	}
	c.known[t] = false // while it is looked through
	if t.Obj().Pkg() == nil || !c.generated[c.Project.Fset.Position(t.Obj().Pos()).Filename] ||
		!c.isNamedAfterMoved(t.Obj().Name()) {
		return false
	}
	methods := types.NewMethodSet(t)
	if _, isStruct := t.Underlying().(*types.Struct); isStruct {
		methods = types.NewMethodSet(types.NewPointer(t))
	}
	for method := range methods.Methods() {
		if c.mentions(method.Obj().Type()) {
			c.known[t] = true
		}
	}
	return c.known[t]
}

// use says what becomes of a use.
func (c *clients) use(file *project.File, ident *ast.Ident, object types.Object) clientUse {
	use := clientUse{file: file, at: ident}
	selector := selectorOf(file, ident)
	if object.Parent() == object.Pkg().Scope() {
		return c.useOfPackage(use, selector, object)
	}
	if of := ownerOf(file, selector, object); of == nil || c.mentions(of) {
		use.follows = true // with its type
		return use
	}
	use.instead = ident.Name + " of the new client"
	getter := calledBefore(selector)
	if getter == nil {
		return use
	}
	becomes, of := c.getterOf(file, getter, object.Pkg())
	if becomes.Method == "" {
		return use
	}
	use.instead = becomes.Method + "()." + ident.Name
	if becomes.Group != "" {
		use.instead = becomes.Group + "()." + use.instead
	}
	if there := lookUp(resultOf(of, becomes.Method, object.Pkg()), ident.Name, object.Pkg()); there != nil && !c.mentions(there.Type()) {
		use.follows, use.ClientUse = true, becomes
	}
	return use
}

// useOfPackage is about a name of a package for the version.
func (c *clients) useOfPackage(use clientUse, selector *ast.SelectorExpr, object types.Object) clientUse {
	next := map[string]string{c.Old.Version: c.Version}
	if c.Group != c.Old.Group {
		next[c.FolderName(OldPackage)] = c.FolderName(NewPackage)
		next[GroupLabel(c.Old.Group, "")] = GroupLabel(c.Group, "")
	}
	there := replaceBelow(c.Project.Workspace.Modules, object.Pkg().Path(), next)
	use.instead = object.Name() + " of " + there
	if there == object.Pkg().Path() {
		use.instead = object.Name() + " of the new client"
	}
	at := slices.IndexFunc(c.Project.Packages, func(p *project.Package) bool { return p.Path == there })
	if there != object.Pkg().Path() && isOfPackage(use.file, selector) && at >= 0 &&
		c.Project.Packages[at].Types.Scope().Lookup(object.Name()) != nil {
		use.follows, use.ClientUse = true, ClientUse{Selector: selector, Package: there}
	}
	return use
}

// replaceBelow replaces elements of an import path, but none of its module's path, which may be called after the group.
func replaceBelow(modules []project.Module, importPath string, next map[string]string) string {
	root := ""
	for _, module := range modules {
		if strings.HasPrefix(importPath, module.Path+"/") && len(module.Path) > len(root) {
			root = module.Path
		}
	}
	elements := strings.Split(importPath[len(root):], "/")
	for i, element := range elements {
		elements[i] = cmp.Or(next[element], element)
	}
	return root + strings.Join(elements, "/")
}

// ownerOf is the type of which a selector names a method; nil for fields.
func ownerOf(file *project.File, selector *ast.SelectorExpr, object types.Object) types.Type {
	if _, ok := object.(*types.Func); !ok || selector == nil {
		return nil
	}
	return file.Info.TypeOf(selector.X)
}

// selectorOf is the selector that an identifier is the name of.
func selectorOf(file *project.File, ident *ast.Ident) *ast.SelectorExpr {
	path, _ := astutil.PathEnclosingInterval(file.Syntax, ident.Pos(), ident.End())
	for _, node := range path {
		if selector, ok := node.(*ast.SelectorExpr); ok && selector.Sel == ident {
			return selector
		}
	}
	return nil
}

// isOfPackage reports whether a selector is a name of a package.
func isOfPackage(file *project.File, selector *ast.SelectorExpr) bool {
	if selector == nil {
		return false
	}
	ident, ok := selector.X.(*ast.Ident)
	if !ok {
		return false
	}
	_, ok = file.Info.Uses[ident].(*types.PkgName)
	return ok
}

func exported(version string) string { return strings.ToUpper(version[:1]) + version[1:] }
