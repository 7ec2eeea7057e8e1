// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/token"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/mention"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
)

// owners are the comparisons of owner references that accept both versions afterwards, of one package by its files.
type owners map[*project.File][]mention.OwnerComparison

func (s *importers) ownersIn(pkg *project.Package) owners {
	found := owners{}
	for _, file := range pkg.Files {
		if !file.Generated && s.Request.Consumes(file.Path) {
			found[file] = s.uses.OwnerComparisons(pkg, file)
		}
	}
	return found
}

func (o owners) all() (all []mention.OwnerComparison) {
	for _, some := range o {
		all = append(all, some...)
	}
	return all
}

// editOwners edits a file that does not name the old version: it compares with variables of other files.
func (s *importers) editOwners(pkg *project.Package, file *project.File, owners owners) error {
	i := &importer{importers: s, pkg: pkg, file: file, owners: owners}
	i.q = s.qualifiersOf(pkg.Types, file, s.styleIn(pkg))
	i.acceptBothOwners()
	text := []byte(source.Splice(file.Source, 0, len(file.Source), i.edits))
	return s.rewrite(file, text, i.q, nil, "accepts owners of both versions")
}

// styleIn is how files of a package call the old version.
func (s *importers) styleIn(pkg *project.Package) string {
	for _, file := range pkg.Files {
		for _, spec := range source.ImportSpecs(file.Syntax, s.Old.Package.Path) {
			if name := file.PackageName(spec); !slices.Contains([]string{"_", "."}, name) {
				return name
			}
		}
	}
	return ""
}

// acceptBothOwners makes each comparison of an owner reference with the old version accept the new one as well: objects
// that are stored keep the apiVersion of their owners, and new objects have the new one. The parentheses keep what the
// condition around means. It comes after the other edits, because it repeats what they make of the owner.
func (i *importer) acceptBothOwners() {
	for _, one := range i.owners[i.file] {
		or := " || "
		if one.Expr.Op == token.NEQ {
			or = " && "
		}
		owner := source.Splice(i.file.Source, i.Project.Offset(one.Owner.Pos()), i.Project.Offset(one.Owner.End()), i.edits)
		other := strings.Join([]string{owner, one.Expr.Op.String(),
			i.q.name(layout.NewPackage) + "." + one.Anchor.Name + ".String()"}, " ")
		i.insert(one.Expr.Pos(), "(")
		i.insert(one.Expr.End(), or+other+")")
	}
}
