// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strconv"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// clientEdits make a file use the generated clients of the new version.
func (s *editing) clientEdits(file *project.File, q *qualifiers) []source.Edit {
	var edits []source.Edit
	packages := map[string][]*ast.SelectorExpr{} // by the new import path
	for _, use := range s.ClientUses(file) {
		if use.Method != "" {
			edits = append(edits, source.Replace(s.Project.Fset, use.Selector.Sel, use.Method))
			if use.Group != "" {
				of := use.Selector.X.(*ast.CallExpr).Fun.(*ast.SelectorExpr)
				edits = append(edits, source.Replace(s.Project.Fset, of.Sel, use.Group))
			}
			continue
		}
		packages[use.Package] = append(packages[use.Package], use.Selector)
	}
	for _, there := range slices.Sorted(maps.Keys(packages)) {
		selectors := packages[there]
		name, specEdits := s.clientImport(file, q, there, selectors)
		edits = append(edits, specEdits...)
		for _, selector := range selectors {
			edits = append(edits, source.Replace(s.Project.Fset, selector.X, name))
		}
	}
	return edits
}

// clientImport is the name by which a file calls the package of a client of the new version. Its import takes the place
// of the old one's if the file needs that no longer.
func (s *editing) clientImport(file *project.File, q *qualifiers, there string,
	selectors []*ast.SelectorExpr) (name string, edits []source.Edit) {
	old := file.Info.Uses[selectors[0].X.(*ast.Ident)].(*types.PkgName)
	q.former[old.Imported().Path()] = old.Name()
	for _, spec := range source.ImportSpecs(file.Syntax, there) {
		if name := file.PackageName(spec); name != "_" && name != "." {
			return name, nil
		}
	}
	name = withVersion(old.Name(), s.Version)
	for n := 2; q.taken[name]; n++ {
		name = withVersion(old.Name(), s.Version) + "client" + strconv.Itoa(n)
	}
	times := 0
	for used, object := range file.Info.Uses {
		if object == old && s.InFile(file, used) {
			times++
		}
	}
	if at := slices.IndexFunc(file.Syntax.Imports, func(spec *ast.ImportSpec) bool {
		return file.PackageName(spec) == old.Name()
	}); at >= 0 && times == len(selectors) {
		if versionInName.FindString(old.Name()) == "" {
			name = old.Name()
		}
		text := source.Import{Path: there, Name: name}.Spec()
		if spec := file.Syntax.Imports[at]; spec.Name != nil {
			text = name + " " + strconv.Quote(there)
		}
		return name, []source.Edit{source.Replace(s.Project.Fset, file.Syntax.Imports[at], text)}
	}
	q.taken[name] = true
	q.clients = append(q.clients, source.Import{Path: there, Name: name})
	return name, nil
}
