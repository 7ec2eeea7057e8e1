// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// editOld changes the old version's files: what is shared stays under its old name as an alias, what has moved is
// marked as deprecated, and everything else refers to the shared packages.
func (s *surgery) editOld() error {
	for _, file := range s.old.Package.Files {
		if file.Generated {
			continue
		}
		q := s.qualifiersOf(s.old.Package.Types, file, "")
		edits := s.references(file, homeOld, q)
		if !file.Test {
			edits = slices.Concat(edits, s.storageEdits(file, homeOld), s.deprecations(file), s.aliases(file, q))
		}
		if len(edits) == 0 {
			continue
		}
		text := []byte(splice(file.Source, 0, len(file.Source), edits))
		removable := map[string]string{}
		for _, one := range importsOf(file, selectors(file.Syntax)) {
			removable[one.path] = one.name
		}
		why := "uses what is shared; old names are deprecated"
		if err := s.rewrite(file, text, q, removable, why); err != nil {
			return err
		}
		if !file.Test && s.isEmptied(file) {
			s.files[file.Path] = &change{why: "all it held has moved"}
		}
	}
	return nil
}

// rewrite records the new text of a file that exists.
func (s *surgery) rewrite(file *project.File, text []byte, q *qualifiers, removable map[string]string, why string) error {
	mentioned, err := mentionedIn(text)
	if err != nil {
		return fmt.Errorf("edit %s: %w", file.Path, err)
	}
	var add []imported
	for _, one := range q.imports() {
		if mentioned[one.name] {
			add = append(add, one)
		}
	}
	if text, err = fixImports(text, add, removable); err != nil {
		return fmt.Errorf("edit %s: %w", file.Path, err)
	}
	if text, err = tidy(file.Source, text); err != nil {
		return fmt.Errorf("edit %s: %w", file.Path, err)
	}
	s.files[file.Path] = &change{content: text, why: why}
	return nil
}

// isEmptied reports whether every declaration has gone and no free comment is left.
func (s *surgery) isEmptied(file *project.File) bool {
	from, _ := s.body(file)
	covered := []span{{0, from}}
	declarations := 0
	for _, decl := range file.Syntax.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		declarations++
		for _, d := range s.ownersOf(file, decl) {
			if d == nil || s.placed[d].Destination != split.Shared || ast.IsExported(d.Name) && !isMethod(decl) {
				return false
			}
		}
		if function, ok := decl.(*ast.FuncDecl); ok && function.Recv == nil && function.Name.Name == "init" {
			return false
		}
		covered = append(covered, s.spanOf(file, decl), span{s.project.Offset(decl.Pos()), s.project.Offset(decl.End())})
	}
	for _, group := range file.Syntax.Comments {
		at := s.project.Offset(group.Pos())
		if !slices.ContainsFunc(covered, func(c span) bool { return c.from <= at && at < c.to }) {
			return false
		}
	}
	return declarations > 0
}

func isMethod(decl ast.Decl) bool {
	function, ok := decl.(*ast.FuncDecl)
	return ok && function.Recv != nil
}

// deprecations are the edits that add a paragraph to the comments of exported declarations that have moved.
func (s *surgery) deprecations(file *project.File) []edit {
	var edits []edit
	for _, d := range s.graph.Declarations {
		if d.File() != file || s.placed[d].Destination != split.New || !ast.IsExported(d.Name) {
			continue
		}
		var node ast.Node = d.Parts[0].Decl
		doc := docOf(node)
		if specs := d.Parts[0].Specs; len(specs) > 0 && (len(specs) < len(d.Parts[0].Decl.(*ast.GenDecl).Specs) || d.Parts[0].Decl.(*ast.GenDecl).Lparen.IsValid()) {
			node = specs[0]
			doc = docOf(node)
		}
		edits = append(edits, s.deprecate(file, node, doc, "Deprecated: use "+identifier(s.version)+"."+d.Name+" instead."))
	}
	return edits
}

// deprecate adds a paragraph behind the prose of a comment, before its markers.
func (s *surgery) deprecate(file *project.File, node ast.Node, doc *ast.CommentGroup, text string) edit {
	start := s.project.Offset(node.Pos())
	indent := indentOf(file.Source, start)
	if doc == nil {
		return edit{start, start, "// " + text + "\n" + indent}
	}
	for i, comment := range doc.List {
		if isMarker(comment.Text) || strings.HasPrefix(comment.Text, "//go:") {
			at, before := s.project.Offset(comment.Pos()), "//\n"+indent
			if i == 0 || strings.TrimSpace(doc.List[i-1].Text) == "//" {
				before = ""
			}
			return edit{at, at, before + "// " + text + "\n" + indent + "//\n" + indent}
		}
	}
	end := s.project.Offset(doc.End())
	return edit{end, end, "\n" + indent + "//\n" + indent + "// " + text}
}

func indentOf(source []byte, at int) string {
	from := at
	for from > 0 && (source[from-1] == '\t' || source[from-1] == ' ') {
		from--
	}
	return string(source[from:at])
}

// aliases are the edits that put an alias, a constant or a forwarding function in the place of what is shared.
func (s *surgery) aliases(file *project.File, q *qualifiers) []edit {
	var edits []edit
	for _, decl := range file.Syntax.Decls {
		owners := s.ownersOf(file, decl)
		shared := countTrue(owners, func(d *split.Declaration) bool { return d != nil && s.placed[d].Destination == split.Shared })
		if shared == 0 {
			continue
		}
		if shared < len(owners) {
			general := decl.(*ast.GenDecl)
			for i, spec := range general.Specs {
				if owners[i] != nil && s.placed[owners[i]].Destination == split.Shared {
					at := s.spanOf(file, spec)
					edits = append(edits, s.replacement(file, at, s.aliasSpec(owners[i], spec, general.Tok, q, true)))
				}
			}
			continue
		}
		edits = append(edits, s.replacement(file, s.spanOf(file, decl), s.aliasDecl(file, decl, owners, q)))
	}
	return edits
}

// replacement replaces a span; with nothing, it takes the empty line along.
func (s *surgery) replacement(file *project.File, at span, text string) edit {
	if text == "" {
		at.from, at.to = wholeLines(file.Source, at.from, at.to)
		if at.to < len(file.Source) && file.Source[at.to] == '\n' {
			at.to++
		}
	}
	return edit{at.from, at.to, text}
}

func (s *surgery) aliasDecl(file *project.File, decl ast.Decl, owners []*split.Declaration, q *qualifiers) string {
	if function, ok := decl.(*ast.FuncDecl); ok {
		if function.Recv != nil || !ast.IsExported(function.Name.Name) {
			return ""
		}
		return s.forwarder(file, function, q)
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
func (s *surgery) aliasSpec(d *split.Declaration, spec ast.Spec, keyword token.Token, q *qualifiers, grouped bool) string {
	indent, prefix := "\n", keyword.String()+" "
	if grouped {
		indent, prefix = "\n\t", ""
	}
	var lines []string
	for _, name := range namesOf(spec) {
		if !ast.IsExported(name) {
			continue
		}
		target := q.name(homeShared) + "." + name
		head := "// Deprecated: use " + path.Base(s.dirs[homeShared]) + "." + name + " instead."
		switch keyword {
		case token.TYPE:
			marker := "// +kubebuilder:object:generate=false"
			if s.legacy {
				marker = "// +k8s:deepcopy-gen=false"
			}
			lines = append(lines, head+indent+"//"+indent+marker+indent+"//"+indent+"//go:fix inline"+indent+prefix+name+" = "+target)
			if spec.(*ast.TypeSpec).TypeParams != nil {
				s.blocker(s.project.Place(spec.Pos()), "%s has type parameters, which an alias in the old version cannot repeat yet: use --assign %s=stay", name, name)
			}
		case token.CONST:
			lines = append(lines, head+indent+"//"+indent+"//go:fix inline"+indent+prefix+name+" = "+target)
		default:
			lines = append(lines, head+indent+prefix+name+" = "+target)
			s.finding(s.project.Place(spec.Pos()), "variable %s: the old version's is a copy; assigning to one does not change the other", d.Name)
		}
	}
	return strings.Join(lines, indent)
}

func namesOf(spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []string{spec.Name.Name}
	case *ast.ValueSpec:
		var names []string
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
		return names
	}
	return nil
}

// forwarder is a function that calls the shared one.
func (s *surgery) forwarder(file *project.File, function *ast.FuncDecl, q *qualifiers) string {
	name := function.Name.Name
	if function.Type.TypeParams != nil {
		s.blocker(s.project.Place(function.Pos()), "%s has type parameters, which a function in the old version cannot forward yet: use --assign %s=stay", name, name)
		return ""
	}
	edits := s.references(file, homeOld, q)
	text := func(node ast.Node) string {
		return splice(file.Source, s.project.Offset(node.Pos()), s.project.Offset(node.End()), edits)
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
			if argument == "_" || argument == q.name(homeShared) {
				argument = fmt.Sprintf("p%d", len(arguments))
			}
			own = append(own, argument)
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				argument += "..."
			}
			arguments = append(arguments, argument)
		}
		parameters = append(parameters, strings.Join(own, ", ")+" "+text(field.Type))
	}
	result, call := "", q.name(homeShared)+"."+name+"("+strings.Join(arguments, ", ")+")"
	if results := function.Type.Results; results != nil && len(results.List) > 0 {
		result, call = " "+text(results), "return "+call
	}
	return "// Deprecated: use " + path.Base(s.dirs[homeShared]) + "." + name + " instead.\n//\n//go:fix inline\nfunc " + name + "(" + strings.Join(parameters, ", ") + ")" + result + " {\n\t" + call + "\n}"
}
