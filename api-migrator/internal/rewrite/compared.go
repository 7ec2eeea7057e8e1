// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// editComparing edits a file that does not import the old version: it compares with variables of other files, or with
// literals, or has texts that name it.
func (s *importers) editComparing(pkg *project.Package, file *project.File) error {
	i := &importer{importers: s, pkg: pkg, file: file}
	i.q = s.qualifiersOf(pkg.Types, file, s.styleIn(pkg))
	why := "accepts both versions"
	if i.restate() && len(s.uses.Comparisons(pkg)[file]) == 0 {
		why = whyTexts
	}
	if edits := i.clientEdits(file, i.q); len(edits) > 0 {
		i.edits, why = append(i.edits, edits...), "uses the clients of the new version"
	}
	i.acceptBoth()
	text := []byte(wrapped(source.Splice(file.Source, 0, len(file.Source), i.edits)))
	return s.rewrite(file, text, i.q, nil, why)
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

// acceptBoth makes each comparison of an owner reference or a request with the old version accept the new one as well:
// objects that are stored keep the apiVersion of their owners, and new objects have the new one. The parentheses keep
// what the condition around means. It comes after the other edits, because it repeats what they make of the subject.
// Lines that become too long are broken later, see wrapped.
func (i *importer) acceptBoth() {
	name := func() string { return i.q.name(layout.NewPackage) }
	marked := map[token.Pos]bool{}
	for _, one := range i.uses.Comparisons(i.pkg)[i.file] {
		i.edits = append(i.edits, i.accept(i.file, one, i.asEdited(one.Subject), one.New(name, i.asEdited), marked)...)
	}
}

// accept are the edits that make a comparison accept another version as well. subject is the text of what is compared.
func (s *editing) accept(file *project.File, one mention.Comparison, subject, version string,
	marked map[token.Pos]bool) []source.Edit {
	if one.Expr == nil {
		return []source.Edit{source.Insert(s.Project.Offset(one.Old.End()), ","+innerBreak+" "+version)}
	}
	or := " ||" + innerBreak + " "
	if one.Expr.Op == token.NEQ {
		or = " &&" + innerBreak + " "
	}
	other := or + strings.Join([]string{subject, one.Expr.Op.String(), version}, " ")
	edits, isOperand := s.markOperators(file, one.Expr, marked)
	if isOperand {
		edits, other = append(edits, source.Insert(s.Project.Offset(one.Expr.Pos()), "(")), other+")"
	}
	return append(edits, source.Insert(s.Project.Offset(one.Expr.End()), other))
}

// acceptOther are the edits that make comparisons in the old version's package accept the other version, in the code that
// stays and in the code that goes to the new package. edits are the others of the file. See wrapped.
func (s *editing) acceptOther(uses *mention.Reader, file *project.File, viewer layout.Home, edits []source.Edit) []source.Edit {
	version := s.Group + "/" + s.Version
	if viewer == layout.NewPackage {
		version = s.Old.Name()
	}
	var more []source.Edit
	marked := map[token.Pos]bool{}
	for _, one := range uses.Comparisons(s.Old.Package)[file] {
		subject := source.Splice(file.Source, s.Project.Offset(one.Subject.Pos()), s.Project.Offset(one.Subject.End()), edits)
		more = append(more, s.accept(file, one, subject, strconv.Quote(version), marked)...)
	}
	return more
}

// asEdited is the text of a piece of code with the edits so far, and more.
func (i *importer) asEdited(node ast.Node, more ...source.Edit) string {
	return source.Splice(i.file.Source, i.Project.Offset(node.Pos()), i.Project.Offset(node.End()),
		slices.Concat(more, i.edits))
}
