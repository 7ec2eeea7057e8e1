// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// aliases are the edits that put an alias, a constant or a forwarding function in the place of what has left, or
// nothing.
func (s *surgery) aliases(file *project.File, q *qualifiers) []source.Edit {
	var edits []source.Edit
	left := func(d *split.Declaration) bool {
		return d != nil && (s.remainsOf(d) == remainsNamed || s.remainsOf(d) == remainsNothing)
	}
	for _, decl := range file.Syntax.Decls {
		owners := s.ownersOf(file, decl)
		switch n := countTrue(owners, left); {
		case n == 0:
		case n == len(owners):
			edits = append(edits, source.Replacement(file.Source, source.SpanOf(s.project.Fset, file.Syntax, decl), s.aliasDecl(file, decl, owners, q)))
		default:
			general := decl.(*ast.GenDecl)
			for i, spec := range general.Specs {
				if left(owners[i]) {
					edits = append(edits, source.Replacement(file.Source, source.SpanOf(s.project.Fset, file.Syntax, spec),
						s.aliasSpec(owners[i], spec, general.Tok, q, true)))
				}
			}
		}
	}
	return edits
}

// definedTypes are the edits that define kinds as the new version's types. They keep their comments.
func (s *surgery) definedTypes(file *project.File, q *qualifiers) []source.Edit {
	var edits []source.Edit
	for _, d := range s.graph.Declarations {
		if d.File() == file && s.remainsOf(d) == remainsDefined {
			kind := d.Parts[0].Specs[0].(*ast.TypeSpec)
			edits = append(edits, source.Replace(s.project.Fset, kind.Type, q.name(homeNew)+"."+s.nameOf(d, d.Name, elsewhere)))
		}
	}
	return edits
}

func (s *surgery) aliasDecl(file *project.File, decl ast.Decl, owners []*split.Declaration, q *qualifiers) string {
	if function, ok := decl.(*ast.FuncDecl); ok {
		if s.isGone(owners[0], decl) {
			return ""
		}
		return s.forwarder(owners[0], file, function, q)
	}
	general := decl.(*ast.GenDecl)
	grouped := general.Lparen.IsValid()
	var specs []string
	for i, spec := range general.Specs {
		if text := s.aliasSpec(owners[i], spec, general.Tok, q, grouped); text != "" {
			specs = append(specs, text)
		}
	}
	switch {
	case len(specs) == 0:
		return ""
	case !grouped:
		return specs[0]
	default:
		return general.Tok.String() + " (\n\t" + strings.Join(specs, "\n\t") + "\n)"
	}
}

// aliasSpec is the alias of one spec. Inside parentheses it stands without the keyword.
func (s *surgery) aliasSpec(d *split.Declaration, spec ast.Spec, keyword token.Token,
	q *qualifiers, grouped bool) string {
	if s.remainsOf(d) == remainsNothing {
		return ""
	}
	indent, prefix := "\n", keyword.String()+" "
	if grouped {
		indent, prefix = "\n\t", ""
	}
	var lines []string
	for _, name := range source.NamesOf(spec) {
		if !ast.IsExported(name) {
			continue
		}
		at := s.homeOf(d, elsewhere)
		there := s.nameOf(d, name, elsewhere)
		target, head := q.name(at)+"."+there, s.useInstead(at, there)
		switch keyword {
		case token.TYPE:
			marker := "// +kubebuilder:object:generate=false"
			if s.legacy {
				marker = "// +k8s:deepcopy-gen=false"
			}
			lines = append(lines, head+indent+"//"+indent+marker+indent+"//"+indent+"//go:fix inline"+indent+
				prefix+name+" = "+target)
			if spec.(*ast.TypeSpec).TypeParams != nil {
				s.blocker(s.project.Place(spec.Pos()), "%s has type parameters, which an alias in the old version "+
					"cannot repeat yet: use --assign %s=stay", name, name)
			}
		case token.CONST:
			lines = append(lines, head+indent+"//"+indent+"//go:fix inline"+indent+prefix+name+" = "+target)
		default:
			lines = append(lines, head+indent+prefix+name+" = "+target)
			s.finding(s.project.Place(spec.Pos()), "variable %s: the old version's is a copy; assigning to one does "+
				"not change the other", d.Name)
		}
	}
	return strings.Join(lines, indent)
}

// useInstead is the paragraph of a comment that names what has taken an old name's place.
func (s *surgery) useInstead(at home, name string) string {
	qualifier := source.Identifier(path.Base(s.dirs[at])) + "."
	switch {
	case s.seen(at, homeOld):
		qualifier = ""
	case at == homeNew && s.group != s.old.Group:
		qualifier = source.Identifier(s.folderName(at)) + qualifier
	}
	return "// Deprecated: use " + qualifier + name + " instead."
}

// forwarder is a function that calls the one which has left.
func (s *surgery) forwarder(d *split.Declaration, file *project.File, function *ast.FuncDecl, q *qualifiers) string {
	name, at := function.Name.Name, s.homeOf(d, elsewhere)
	there := s.nameOf(d, name, elsewhere)
	if function.Type.TypeParams != nil {
		s.blocker(s.project.Place(function.Pos()),
			"%s has type parameters, which a function in the old version cannot forward yet: use --assign %s=stay",
			name, name)
		return ""
	}
	edits := s.references(file, homeOld, q)
	text := func(node ast.Node) string {
		return source.Splice(file.Source, s.project.Offset(node.Pos()), s.project.Offset(node.End()), edits)
	}
	taken := map[string]bool{q.name(at): true}
	for _, field := range function.Type.Params.List {
		for _, ident := range field.Names {
			taken[ident.Name] = true
		}
	}
	var parameters, arguments []string
	for _, field := range function.Type.Params.List {
		names := field.Names
		if len(names) == 0 {
			names = []*ast.Ident{ast.NewIdent("_")}
		}
		var own []string
		for _, ident := range names {
			argument := ident.Name
			if argument == "_" || argument == q.name(at) {
				for n := len(arguments); argument == "_" || taken[argument]; n++ {
					argument = fmt.Sprintf("p%d", n)
				}
				taken[argument] = true
			}
			own = append(own, argument)
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				argument += "..."
			}
			arguments = append(arguments, argument)
		}
		parameters = append(parameters, strings.Join(own, ", ")+" "+text(field.Type))
	}
	result, call := "", q.name(at)+"."+there+"("+strings.Join(arguments, ", ")+")"
	if results := function.Type.Results; results != nil && len(results.List) > 0 {
		result, call = " "+text(results), "return "+call
	}
	return s.useInstead(at, there) + "\n//\n//go:fix inline\nfunc " + name + "(" + strings.Join(parameters, ", ") +
		")" + result + " {\n\t" + call + "\n}"
}
