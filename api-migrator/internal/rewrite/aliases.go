// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
)

// aliases are the edits that put an alias, a constant or a forwarding function in the place of what has left, or
// nothing.
func (s *oldVersion) aliases(file *project.File, q *qualifiers) []source.Edit {
	var edits []source.Edit
	left := func(d *split.Declaration) bool {
		return d != nil && (s.RemainsOf(d) == layout.RemainsNamed || s.RemainsOf(d) == layout.RemainsNothing)
	}
	for _, decl := range file.Syntax.Decls {
		owners := s.OwnersOf(file, decl)
		switch n := countTrue(owners, left); {
		case n == 0:
		case n == len(owners):
			edits = append(edits, source.Replacement(file.Source, source.SpanOf(s.Project.Fset, file.Syntax, decl),
				s.aliasDecl(file, decl, owners, q)))
		default:
			general := decl.(*ast.GenDecl)
			for i, spec := range general.Specs {
				if left(owners[i]) {
					edits = append(edits, source.Replacement(file.Source,
						source.SpanOf(s.Project.Fset, file.Syntax, spec),
						s.aliasSpec(owners[i], spec, general.Tok, q, true)))
				}
			}
		}
	}
	return edits
}

// definedTypes are the edits that define kinds as the new version's types. They keep their comments.
func (s *oldVersion) definedTypes(file *project.File, q *qualifiers) []source.Edit {
	var edits []source.Edit
	for _, d := range s.Graph.Declarations {
		if d.File() == file && s.RemainsOf(d) == layout.RemainsDefined {
			kind := d.Parts[0].Specs[0].(*ast.TypeSpec)
			edits = append(edits, source.Replace(s.Project.Fset, kind.Type, q.name(layout.NewPackage)+"."+
				s.NameOf(d, d.Name, layout.Importer)))
		}
	}
	return edits
}

func (s *oldVersion) aliasDecl(file *project.File, decl ast.Decl, owners []*split.Declaration, q *qualifiers) string {
	if function, ok := decl.(*ast.FuncDecl); ok {
		if s.isGone(owners[0], decl) {
			return ""
		}
		return s.forwarder(owners[0], file, function, q)
	}
	general := decl.(*ast.GenDecl)
	grouped := general.Lparen.IsValid()
	var specs strings.Builder
	for i, spec := range general.Specs {
		text := s.aliasSpec(owners[i], spec, general.Tok, q, grouped)
		switch {
		case text == "":
		case !grouped:
			return text
		default:
			at := source.SpanOf(s.Project.Fset, file.Syntax, spec)
			if specs.Len() > 0 && source.FollowsEmptyLine(file.Source, at.From) {
				specs.WriteString("\n")
			}
			specs.WriteString("\t" + text + "\n")
		}
	}
	if specs.Len() == 0 {
		return ""
	}
	return general.Tok.String() + " (\n" + specs.String() + ")"
}

// aliasSpec is the alias of one spec. Inside parentheses it stands without the keyword.
func (s *oldVersion) aliasSpec(d *split.Declaration, spec ast.Spec, keyword token.Token,
	q *qualifiers, grouped bool) string {
	if s.RemainsOf(d) == layout.RemainsNothing {
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
		at := s.HomeOf(d, layout.Importer)
		there := s.NameOf(d, name, layout.Importer)
		target, head := q.name(at)+"."+there, s.useInstead(at, there)
		switch keyword {
		case token.TYPE:
			marker := "// +kubebuilder:object:generate=false"
			if s.DeepCopyMarker != "" {
				marker = "// +k8s:deepcopy-gen=false"
			}
			lines = append(lines, head+indent+"//"+indent+marker+indent+"//"+indent+"//go:fix inline"+indent+
				prefix+name+" = "+target)
			if spec.(*ast.TypeSpec).TypeParams != nil {
				s.Block(s.Project.Place(spec.Pos()), "%s has type parameters, which an alias in the old version "+
					"cannot repeat yet: use --assign %s=stay", name, name)
			}
		case token.CONST:
			lines = append(lines, head+indent+"//"+indent+"//go:fix inline"+indent+prefix+name+" = "+target)
		default:
			lines = append(lines, head+indent+prefix+name+" = "+target)
			s.Note(s.Project.Place(spec.Pos()), "variable %s: the old version's is a copy; assigning to one does "+
				"not change the other", d.Name)
		}
	}
	return strings.Join(lines, indent)
}

// forwarder is a function that calls the one which has left.
func (s *oldVersion) forwarder(d *split.Declaration, file *project.File, function *ast.FuncDecl, q *qualifiers) string {
	name, at := function.Name.Name, s.HomeOf(d, layout.Importer)
	there := s.NameOf(d, name, layout.Importer)
	if function.Type.TypeParams != nil {
		s.Block(s.Project.Place(function.Pos()),
			"%s has type parameters, which a function in the old version cannot forward yet: use --assign %s=stay",
			name, name)
		return ""
	}
	edits := s.references(file, layout.OldPackage, q)
	text := func(node ast.Node) string {
		return source.Splice(file.Source, s.Project.Offset(node.Pos()), s.Project.Offset(node.End()), edits)
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
