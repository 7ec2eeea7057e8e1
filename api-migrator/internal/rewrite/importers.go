// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// importers is the step that rewrites importers.
type importers struct {
	*editing
	uses    *mention.Reader
	changed []signature     // of the package that is being edited
	stale   []*project.File // that are generated, and use the old version
}

// Importers rewrites what imports the old version, and reports what still means it.
func Importers(l *layout.Layout, before changeset.Set, uses *mention.Reader) (changeset.Result, error) {
	s := &importers{editing: begin(l, before), uses: uses}
	err := s.editImporters()
	s.noteStale()
	return s.Result, err
}

// editImporters rewrites every file outside the version's package that mentions it, by the identity of what it
// mentions and not by name. A file that imports the package with a dot is refused, because only selectors are edited.
// Generated files are left to their generators, so it does not matter how they import it; doubles of interfaces change
// with the interfaces, and conversions with the types.
func (s *importers) editImporters() error {
	for _, pkg := range s.Project.Packages {
		if pkg == s.Old.Package || s.Exists(layout.NewPackage) && pkg == s.Present(layout.NewPackage).Package {
			continue
		}
		compared := s.uses.Comparisons(pkg)
		s.changed = nil
		for _, file := range pkg.Files {
			specs := source.ImportSpecs(file.Syntax, s.Old.Package.Path)
			named := slices.ContainsFunc(specs, func(spec *ast.ImportSpec) bool { return file.PackageName(spec) != "_" })
			switch {
			case !named && (len(compared[file]) > 0 || len(s.uses.Restated(pkg, file)) > 0 || len(s.ClientUses(file)) > 0):
				if err := s.editComparing(pkg, file); err != nil {
					return err
				}
			case len(specs) == 0 || s.isRegenerated(file):
			case file.Generated && !s.isDouble(pkg, file) && !s.followsTypes(file):
				s.lookAtGenerated(file)
			case slices.ContainsFunc(specs, func(spec *ast.ImportSpec) bool { return file.PackageName(spec) == "." }):
				return hint.Errorf("grep -n "+shell.Quote(s.Old.Package.Path)+" "+shell.Quote(file.Path),
					"%s imports %s with a dot: give the import a name first", file.Path, s.Old.Package.Path)
			default:
				if err := s.editImporter(pkg, file, specs); err != nil {
					return err
				}
				if file.Generated && s.Changes[file.Path] != nil {
					s.noteGenerated(file)
				}
			}
		}
		s.noteSignatures(s.changed)
		s.noteMarkers(pkg)
	}
	return nil
}

// lookAtGenerated says what a file that is generated, and hence not changed, needs.
func (s *importers) lookAtGenerated(file *project.File) {
	if s.MovesOnlyImporters() {
		return // it knows both versions, or will when it is generated again
	}
	blocked, concerned := false, false
	s.EachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) {
		concerned = concerned || s.DestinationOf(d) != split.Stay
		if s.RemainsOf(d) == layout.RemainsNothing && !blocked {
			blocked = true
			s.Block(file.Path, "generated, and uses %s, which would be removed: use --old alias until its "+
				"generator knows the new version", d.Name)
		}
	})
	if !blocked && concerned {
		s.stale = append(s.stale, file)
	}
}

// importer is one file that imports the old version.
type importer struct {
	*importers
	file  *project.File
	spec  *ast.ImportSpec // of the old version
	style string          // its name for the old version
	q     *qualifiers
	pkg   *project.Package
	edits []source.Edit
	sides map[ast.Node]side          // what has been found about code, see about
	moved map[*ast.SelectorExpr]bool // those that name another package afterwards
}

func (s *importers) editImporter(pkg *project.Package, file *project.File, specs []*ast.ImportSpec) error {
	named := slices.IndexFunc(specs, func(spec *ast.ImportSpec) bool { return file.PackageName(spec) != "_" })
	if named < 0 {
		return nil
	}
	i := &importer{importers: s, pkg: pkg, file: file, spec: specs[named], style: file.PackageName(specs[named]),
		sides: map[ast.Node]side{}, moved: map[*ast.SelectorExpr]bool{}}
	i.q = s.qualifiersOf(pkg.Types, file, i.style)
	if cloned, err := i.cloneRegistration(); err != nil || cloned {
		return err
	}
	uses := i.usesOfOld()
	if len(specs) == 1 {
		i.replaceImport(uses)
	}
	for _, one := range uses {
		i.editUse(one)
	}
	i.restate()
	i.edits = append(i.edits, i.clientEdits(file, i.q)...)
	if len(i.edits) == 0 && len(s.uses.Comparisons(pkg)[file]) == 0 {
		return nil
	}
	if i.Consumes(file) {
		i.comments()
		i.edits = append(i.edits, i.embeddedFields(file)...)
	}
	i.acceptBoth()
	s.changed = append(s.changed, i.signatures()...)
	text := []byte(wrapped(source.Splice(file.Source, 0, len(file.Source), i.edits)))
	return s.rewrite(file, text, i.q, map[string]string{s.Old.Package.Path: i.style}, "uses what has moved")
}

// owner is the declaration that a selector such as v1.Phase names.
func (i *importer) owner(selector *ast.SelectorExpr) *split.Declaration {
	ident, ok := selector.X.(*ast.Ident)
	if !ok {
		return nil
	}
	name, ok := i.file.Info.Uses[ident].(*types.PkgName)
	if !ok || name.Imported().Path() != i.Old.Package.Path {
		return nil
	}
	return i.Graph.Owner(i.file.Info.Uses[selector.Sel])
}

// noteUse reports a use of what says the version.
func (i *importer) noteUse(selector *ast.SelectorExpr, d *split.Declaration, becomesNew bool) {
	if i.isSettled(selector) {
		return
	}
	i.Findings = append(i.Findings, i.uses.Use(i.file, selector, d, becomesNew)...)
}

// use is a place in which a file names a declaration of the old version, and the package that has it for this place.
type use struct {
	selector *ast.SelectorExpr
	of       *split.Declaration
	at       layout.Home
}

func (i *importer) usesOfOld() (uses []use) {
	ast.Inspect(i.file.Syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if d := i.owner(selector); d != nil {
				uses = append(uses, use{selector, d, i.homeAt(selector, d)})
			}
		}
		return true
	})
	return uses
}

// homeAt is the package that a selector is to name.
func (i *importer) homeAt(selector *ast.SelectorExpr, d *split.Declaration) layout.Home {
	switch {
	case !i.Consumes(i.file):
		return layout.OldPackage
	case i.DestinationOf(d) == split.Anchor:
		saysVersion := strings.HasSuffix(d.Name, "GroupVersion") || i.Group != i.Old.Group
		if d.AddsToScheme() || i.isSettled(selector) || !saysVersion || i.Lacks(d) ||
			i.uses.IsCompared(i.file, selector) || !i.besideMoved(selector) && !i.isReturnedForMoved(selector) {
			return layout.OldPackage
		}
		return layout.NewPackage
	case i.IsDuplicated(d):
		return i.duplicated(selector)
	}
	return i.HomeOf(d, layout.Importer)
}

func (i *importer) isSettled(selector *ast.SelectorExpr) bool {
	return i.uses.IsSettled(i.pkg, i.file, selector)
}

// replaceImport puts the import of the new version in the place of the old one's, where nothing in the file needs that
// any more. A name that says no version stays, and so does a comment at the end of the line.
func (i *importer) replaceImport(uses []use) {
	atNew := func(u use) bool { return u.at == layout.NewPackage }
	atOld := func(u use) bool { return i.SamePackage(u.at, layout.OldPackage) }
	if !slices.ContainsFunc(uses, atNew) || slices.ContainsFunc(uses, atOld) || i.imports(layout.NewPackage) ||
		i.timesNamed() > len(uses) { // generated code of the old version
		return
	}
	i.q.keepStyle()
	replaced := source.Import{Path: i.ImportPath(layout.NewPackage), Name: i.q.name(layout.NewPackage)}
	text := replaced.Spec()
	if i.spec.Name != nil { // as explicit as it was
		text = replaced.Name + " " + strconv.Quote(replaced.Path)
	}
	i.edits = append(i.edits, source.Over(i.Project.Offset(i.spec.Pos()), i.Project.Offset(i.spec.Path.End()), text))
}

// timesNamed is how often the file names the old version's package.
func (i *importer) timesNamed() (n int) {
	ast.Inspect(i.file.Syntax, func(node ast.Node) bool {
		if ident, ok := node.(*ast.Ident); ok {
			name, ok := i.file.Info.Uses[ident].(*types.PkgName)
			if ok && name.Imported().Path() == i.Old.Package.Path {
				n++
			}
		}
		return true
	})
	return n
}

func (i *importer) imports(h layout.Home) bool { return source.Imports(i.file.Syntax, i.ImportPath(h)) }

// editUse edits one use of the old version, or reports it.
func (i *importer) editUse(u use) {
	anchor := i.DestinationOf(u.of) == split.Anchor
	switch {
	case anchor && u.of.AddsToScheme():
		if !i.registersNew(u.selector) {
			i.repeatRegistration(u.selector)
		}
		return
	case anchor && i.isSettled(u.selector):
		return
	case u.at == layout.OldPackage:
		i.noteUse(u.selector, u.of, false)
		return
	}
	i.noteUse(u.selector, u.of, true)
	i.moved[u.selector] = true
	i.edits = append(i.edits, source.Replace(i.Project.Fset, u.selector.X, i.q.name(u.at)))
	if name := i.NameOf(u.of, u.selector.Sel.Name, layout.Importer); name != u.selector.Sel.Name {
		i.edits = append(i.edits, source.Replace(i.Project.Fset, u.selector.Sel, name))
	}
}

// besideMoved reports whether the statement around a selector mentions a kind that moves, by type or in a string.
func (i *importer) besideMoved(selector *ast.SelectorExpr) bool {
	path, _ := astutil.PathEnclosingInterval(i.file.Syntax, selector.Pos(), selector.End())
	for _, node := range path {
		_, statement := node.(ast.Stmt)
		_, literal := node.(*ast.CompositeLit)
		_, value := node.(*ast.ValueSpec)
		if !statement && !literal && !value {
			continue
		}
		found := false
		ast.Inspect(node, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.SelectorExpr:
				d := i.owner(node)
				found = found || d != nil && i.DestinationOf(d) == split.New
			case *ast.BasicLit:
				text, err := strconv.Unquote(node.Value)
				for _, kind := range i.Request.Kinds { // a string keeps the old name of a kind
					found = found || err == nil && node.Kind == token.STRING && text == kind && i.Renaming == nil
				}
			}
			return !found
		})
		if found || statement {
			return found
		}
	}
	return false
}

// isReturnedForMoved reports whether a method returns the group and version and nothing else, in a file that deals with
// kinds that move alone: a reconciler says of which version its kind is, for owner references.
func (i *importer) isReturnedForMoved(selector *ast.SelectorExpr) bool {
	path, _ := astutil.PathEnclosingInterval(i.file.Syntax, selector.Pos(), selector.End())
	isReturned := slices.ContainsFunc(path, func(node ast.Node) bool {
		statement, ok := node.(*ast.ReturnStmt)
		return ok && len(statement.Results) == 1 && statement.Results[0] == ast.Expr(selector)
	})
	isOfMethod := slices.ContainsFunc(path, func(node ast.Node) bool {
		method, ok := node.(*ast.FuncDecl)
		return ok && method.Recv != nil && len(method.Body.List) == 1
	})
	return isReturned && isOfMethod && i.about(i.file.Syntax) == (side{moving: true})
}

// cloneRegistration writes addtoscheme_GROUP_NEW.go after the file for the old version, if this is that file.
func (i *importer) cloneRegistration() (bool, error) {
	base := path.Base(i.file.Path)
	name := strings.TrimSuffix(base, "_"+i.Old.Version+".go")
	if name == base || !strings.HasPrefix(base, "addtoscheme_") || i.InPlace() {
		return false, nil
	}
	if i.Group != i.Old.Group {
		name = "addtoscheme_" + source.Identifier(i.FolderName(layout.NewPackage))
	}
	target := path.Dir(i.file.Path) + "/" + name + "_" + i.Version + ".go"
	if slices.ContainsFunc(i.pkg.Files, func(f *project.File) bool { return f.Path == target }) {
		return true, nil // other kinds have moved before
	}
	imported := source.Import{Path: i.ImportPath(layout.NewPackage), Name: i.q.name(layout.NewPackage)}
	edits := []source.Edit{source.Replace(i.Project.Fset, i.spec, imported.Spec())}
	if i.spec.Name != nil { // as explicit as it was
		edits[0].Text = i.q.name(layout.NewPackage) + " " + strconv.Quote(i.ImportPath(layout.NewPackage))
	}
	ast.Inspect(i.file.Syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && i.owner(selector) != nil {
			edits = append(edits, source.Replace(i.Project.Fset, selector.X, i.q.name(layout.NewPackage)))
		}
		return true
	})
	content, err := source.Format(nil, []byte(source.Splice(i.file.Source, 0, len(i.file.Source), edits)))
	if err != nil {
		return false, err
	}
	i.Changes[target] = &changeset.Change{Content: content,
		Why: "registers the new version, as " + base + " does the old one"}
	return true, nil
}

// comments rewrites names such as v1.Phase in comments, where they mean what has moved.
func (i *importer) comments() {
	for _, d := range i.Graph.Declarations {
		at := i.HomeOf(d, layout.Importer)
		if i.IsDuplicated(d) && i.about(i.file.Syntax) == (side{moving: true}) {
			at = layout.NewPackage
		}
		if at == layout.OldPackage {
			continue
		}
		for _, name := range d.Names {
			mention := source.Word(i.style + "." + name)
			for _, group := range i.file.Syntax.Comments {
				for _, comment := range group.List {
					from := i.Project.Offset(comment.Pos())
					for _, found := range mention.FindAllStringIndex(comment.Text, -1) {
						i.edits = append(i.edits, source.Over(from+found[0], from+found[1], i.q.name(at)+"."+
							i.NameOf(d, name, layout.Importer)))
					}
				}
			}
		}
	}
}
