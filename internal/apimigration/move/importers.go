// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strconv"
	"strings"

	"golang.org/x/tools/go/ast/astutil"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// editImporters rewrites every file outside the version's package that mentions it, by the identity of what it
// mentions and not by name. Generated files are left to their generators.
func (s *surgery) editImporters() error {
	for _, pkg := range s.project.Packages {
		if pkg == s.old.Package {
			continue
		}
		for _, file := range pkg.Files {
			spec := source.ImportSpec(file.Syntax, s.old.Package.Path)
			switch {
			case spec == nil:
			case spec.Name != nil && spec.Name.Name == ".":
				return hint.Errorf("grep -n "+hint.Quote(s.old.Package.Path)+" "+hint.Quote(file.Path),
					"%s imports %s with a dot: give the import a name first", file.Path, s.old.Package.Path)
			case file.Generated:
				s.lookAtGenerated(file)
			default:
				if err := s.editImporter(pkg, file, spec); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lookAtGenerated says what a file that is generated, and hence not changed, needs.
func (s *surgery) lookAtGenerated(file *project.File) {
	s.clients++
	blocked := false
	s.eachUse(file, []ast.Node{file.Syntax}, func(_ *ast.Ident, d *split.Declaration) {
		if s.remainsOf(d) == remainsNothing && !blocked {
			blocked = true
			s.blocker(file.Path, "generated, and uses %s, which would be removed: use --old alias until its "+
				"generator knows the new version", d.Name)
		}
	})
	if !blocked {
		s.finding(file.Path, "generated: run its generator again (its old names still compile)")
	}
}

// importer is one file that imports the old version.
type importer struct {
	*surgery
	file  *project.File
	style string // its name for the old version
	q     *qualifiers
	edits []source.Edit
	sides map[ast.Node]side // what has been found about code, see about
}

func (s *surgery) editImporter(pkg *project.Package, file *project.File, spec *ast.ImportSpec) error {
	i := &importer{surgery: s, file: file, style: packageName(file, spec), sides: map[ast.Node]side{}}
	if i.style == "_" {
		return nil
	}
	i.q = s.qualifiersOf(pkg.Types, file, i.style)
	if cloned, err := i.cloneRegistration(); err != nil || cloned {
		return err
	}
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			i.selector(selector)
		}
		return true
	})
	if len(i.edits) == 0 {
		return nil
	}
	if i.request.consumes(file.Path) {
		i.comments()
		i.edits = append(i.edits, i.embeddedFields(file)...)
	}
	text := []byte(source.Splice(file.Source, 0, len(file.Source), i.edits))
	return s.rewrite(file, text, i.q, map[string]string{s.old.Package.Path: i.style}, "uses what has moved")
}

// owner is the declaration that a selector such as v1.Phase names.
func (i *importer) owner(selector *ast.SelectorExpr) *split.Declaration {
	ident, ok := selector.X.(*ast.Ident)
	if !ok {
		return nil
	}
	name, ok := i.file.Info.Uses[ident].(*types.PkgName)
	if !ok || name.Imported().Path() != i.old.Package.Path {
		return nil
	}
	return i.graph.Owner(i.file.Info.Uses[selector.Sel])
}

func (i *importer) selector(selector *ast.SelectorExpr) {
	d := i.owner(selector)
	if d == nil {
		return
	}
	at := i.homeOf(d, elsewhere)
	consumes := i.request.consumes(i.file.Path)
	if i.placed[d].Destination == split.Anchor {
		if registers[d.Name] {
			i.repeatRegistration(selector)
			return
		}
		if !strings.HasSuffix(d.Name, "GroupVersion") && i.group == i.old.Group || !consumes ||
			!i.besideMoved(selector) {
			i.reportUse(i.file, selector, d, false)
			return
		}
		at = homeNew
	}
	if i.isDuplicated(d) && consumes {
		at = i.duplicated(selector)
	}
	if at == homeOld || !consumes {
		i.reportUse(i.file, selector, d, false)
		return
	}
	i.reportUse(i.file, selector, d, true)
	i.edits = append(i.edits, source.Replace(i.project.Fset, selector.X, i.q.name(at)))
	if name := i.nameOf(d, selector.Sel.Name, elsewhere); name != selector.Sel.Name {
		i.edits = append(i.edits, source.Replace(i.project.Fset, selector.Sel, name))
	}
}

// registers are the anchors that put kinds into a scheme.
var registers = map[string]bool{"AddToScheme": true, "Install": true, "SchemeBuilder": true, "RegisterDefaults": true}

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
				found = found || d != nil && i.placed[d].Destination == split.New
			case *ast.BasicLit:
				text, err := strconv.Unquote(node.Value)
				for _, kind := range i.request.Kinds { // a string keeps the old name of a kind
					found = found || err == nil && node.Kind == token.STRING && text == kind && i.renaming == nil
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

// cloneRegistration writes addtoscheme_GROUP_NEW.go after the file for the old version, if this is that file.
func (i *importer) cloneRegistration() (bool, error) {
	base := path.Base(i.file.Path)
	name := strings.TrimSuffix(base, "_"+i.old.Version+".go")
	if name == base || !strings.HasPrefix(base, "addtoscheme_") || i.inPlace() {
		return false, nil
	}
	if i.group != i.old.Group {
		name = "addtoscheme_" + source.Identifier(i.folderName(homeNew))
	}
	spec := source.ImportSpec(i.file.Syntax, i.old.Package.Path)
	imported := source.Import{Path: i.importPath(homeNew), Name: i.q.name(homeNew)}
	edits := []source.Edit{source.Replace(i.project.Fset, spec, imported.Spec())}
	if spec.Name != nil { // as explicit as it was
		edits[0].Text = i.q.name(homeNew) + " " + strconv.Quote(i.importPath(homeNew))
	}
	ast.Inspect(i.file.Syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && i.owner(selector) != nil {
			edits = append(edits, source.Replace(i.project.Fset, selector.X, i.q.name(homeNew)))
		}
		return true
	})
	content, err := source.Format(nil, []byte(source.Splice(i.file.Source, 0, len(i.file.Source), edits)))
	if err != nil {
		return false, err
	}
	i.files[path.Dir(i.file.Path)+"/"+name+"_"+i.version+".go"] = &change{content: content,
		why: "registers the new version, as " + base + " does the old one"}
	return true, nil
}

// comments rewrites names such as v1.Phase in comments, where they mean what has moved.
func (i *importer) comments() {
	for _, d := range i.graph.Declarations {
		at := i.homeOf(d, elsewhere)
		if i.isDuplicated(d) && i.about(i.file.Syntax) == (side{moving: true}) {
			at = homeNew
		}
		if at == homeOld {
			continue
		}
		for _, name := range d.Names {
			mention := source.Word(i.style + "." + name)
			for _, group := range i.file.Syntax.Comments {
				for _, comment := range group.List {
					from := i.project.Offset(comment.Pos())
					for _, found := range mention.FindAllStringIndex(comment.Text, -1) {
						i.edits = append(i.edits, source.Over(from+found[0], from+found[1], i.q.name(at)+"."+
							i.nameOf(d, name, elsewhere)))
					}
				}
			}
		}
	}
}
