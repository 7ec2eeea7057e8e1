// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

// renaming gives a kind another name, and what is named after it.
type renaming struct {
	from, to string
	// longer are other kinds whose names contain this one's: they do not follow.
	longer []string
}

// renamingOf is nil where kinds keep their names.
func renamingOf(request Request, old *project.Version) *renaming {
	if request.ToKind == "" {
		return nil
	}
	r := &renaming{from: request.Kinds[0], to: request.ToKind}
	for _, kind := range old.Kinds {
		if kind.Name != r.from && strings.Contains(kind.Name, r.from) {
			r.longer = append(r.longer, kind.Name)
		}
	}
	return r
}

// names reports whether a name of Go code is made of the kind's.
func (r *renaming) names(name string) bool { return r.apply(name) != name }

// apply renames a name of Go code that is made of the kind's; others stay.
func (r *renaming) apply(name string) string {
	name = r.replace(name, r.from, r.to, true)
	name = r.replace(name, lowerFirst(r.from), lowerFirst(r.to), false)
	return r.replace(name, strings.ToLower(r.from), strings.ToLower(r.to), false)
}

// replace replaces whole words of a name in camel case. What begins in lower case is a word at the beginning only.
func (r *renaming) replace(name, from, to string, anywhere bool) string {
	var out strings.Builder
	for at := 0; at < len(name); {
		end := at + len(from)
		isLonger := func(kind string) bool {
			before := strings.Index(kind, from)
			return before >= 0 && at >= before && strings.HasPrefix(name[at-before:], kind)
		}
		if (anywhere || at == 0) && strings.HasPrefix(name[at:], from) && endsWord(name[end:]) &&
			!slices.ContainsFunc(r.longer, isLonger) {
			out.WriteString(to)
			at = end
			continue
		}
		out.WriteByte(name[at])
		at++
	}
	return out.String()
}

// endsWord reports whether a word ends before rest; the s of a plural belongs to it.
func endsWord(rest string) bool {
	rest = strings.TrimPrefix(rest, "s")
	return rest == "" || !unicode.IsLower(rune(rest[0]))
}

func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

func snake(name string) string { return strings.ToLower(camel.ReplaceAllString(name, "${1}_${2}")) }

// file renames a file that is named after the kind.
func (r *renaming) file(base string) string {
	for from, to := range map[string]string{snake(r.from): snake(r.to),
		strings.ToLower(r.from): strings.ToLower(r.to)} {
		if after, ok := strings.CutPrefix(base, from); ok && after != "" && (after[0] == '_' || after[0] == '.') {
			return to + after
		}
	}
	return base
}

// fileOf is where the code of a file goes that belongs to a home.
func (s *surgery) fileOf(file *project.File, to home) string {
	base := path.Base(file.Path)
	if to == homeNew && s.renaming != nil {
		renamed := s.renaming.file(base)
		if renamed == base && s.inPlace() {
			renamed = strings.ToLower(s.renaming.to) + "_" + base
		}
		base = renamed
	}
	return path.Join(s.dirs[to], base)
}

// inPlace: the new kind stands in the package of the old one.
func (s *surgery) inPlace() bool { return s.dirs[homeNew] == s.dirs[homeOld] }

// nameCopies names what has another name where it is copied, and refuses names that are taken.
func (s *surgery) nameCopies() {
	if s.renaming == nil {
		return
	}
	taken := map[string]token.Pos{}
	for _, file := range s.old.Package.Files {
		for ident, object := range file.Info.Defs {
			if object != nil && object.Parent() == object.Pkg().Scope() && s.standsInNew(object) {
				taken[ident.Name] = ident.Pos()
			}
		}
	}
	for _, d := range s.graph.Declarations {
		if s.placed[d].Destination != split.New && (s.placed[d].Destination != split.Anchor || d.Registers()) {
			continue
		}
		for _, name := range d.Names {
			renamed := s.renaming.apply(name)
			if renamed == name && s.inPlace() && name != "_" {
				renamed += s.renaming.to
			}
			if renamed == name {
				continue
			}
			if at, ok := taken[renamed]; ok {
				s.blocker(s.project.Place(at), "%s is to be copied as %s, which is here already: rename one of them first", name, renamed)
			}
			taken[renamed] = d.Pos()
			s.copies[name] = renamed
		}
	}
}

// standsInNew reports whether a name of the old package is one of the new kind's package too.
func (s *surgery) standsInNew(object types.Object) bool {
	if s.inPlace() {
		return true
	}
	d := s.graph.Owner(object)
	return d != nil && s.goesTo(d, homeNew) && !s.renaming.names(object.Name())
}

// copyEdits are the edits that rename what is declared in a file for the new kind, in code and comments.
func (s *surgery) copyEdits(file *project.File) []source.Edit {
	if s.renaming == nil {
		return nil
	}
	edits := s.commentEdits(file)
	rename := func(ident *ast.Ident) {
		if name := s.copies[ident.Name]; name != "" {
			edits = append(edits, source.Replace(s.project.Fset, ident, name))
		}
	}
	for ident, object := range file.Info.Defs {
		if s.in(file, ident) && object != nil && s.graph.Owner(object) != nil {
			rename(ident)
		}
	}
	return slices.Concat(edits, s.embeddedFields(file), s.kindLiterals(file))
}

// embeddedFields are the edits of mentions of fields that are called like the type that they embed.
func (s *surgery) embeddedFields(file *project.File) []source.Edit {
	var edits []source.Edit
	for ident, object := range file.Info.Uses {
		field, ok := object.(*types.Var)
		if ok && field.IsField() && field.Embedded() && field.Pkg() != nil &&
			field.Pkg().Path() == s.old.Package.Path && s.copies[ident.Name] != "" && s.in(file, ident) {
			edits = append(edits, source.Replace(s.project.Fset, ident, s.copies[ident.Name]))
		}
	}
	return edits
}

func (s *surgery) in(file *project.File, node ast.Node) bool {
	return file.Syntax.FileStart <= node.Pos() && node.Pos() < file.Syntax.FileEnd
}

// kindLiterals are the strings that are the kind's name, in what is copied: the copy is about the new kind.
func (s *surgery) kindLiterals(file *project.File) []source.Edit {
	old, successor := s.successors[0].old, s.successors[0].successor
	with := map[string]string{old.Kind: successor.Kind, old.List: successor.List}
	var edits []source.Edit
	for _, d := range s.graph.Declarations {
		if !s.goesTo(d, homeNew) {
			continue
		}
		for _, part := range d.Parts {
			if part.File != file {
				continue
			}
			for _, node := range part.Nodes() {
				ast.Inspect(node, func(node ast.Node) bool {
					literal, ok := node.(*ast.BasicLit)
					if !ok || literal.Kind != token.STRING {
						return true
					}
					value, err := strconv.Unquote(literal.Value)
					if err != nil || value == "" || with[value] == "" {
						return true
					}
					edits = append(edits, source.Replace(s.project.Fset, literal, strconv.Quote(with[value])))
					if d.What != "const" {
						s.finding(s.project.Place(literal.Pos()), "%s says %q; the copy for the new kind says %q",
							d.Name, value, with[value])
					}
					return true
				})
			}
		}
	}
	return edits
}

var words = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// commentEdits follow the names in prose, and in the marker that says how the resource is called.
func (s *surgery) commentEdits(file *project.File) []source.Edit {
	old, successor := s.successors[0].old, s.successors[0].successor
	follow := maps.Clone(s.copies)
	follow[old.Plural], follow[old.Singular] = successor.Plural, successor.Singular
	follow[old.Kind+"s"] = cmp.Or(follow[old.Kind+"s"], successor.Kind+"s")
	var edits []source.Edit
	for _, group := range file.Syntax.Comments {
		for _, comment := range group.List {
			from := s.project.Offset(comment.Pos())
			if source.IsMarker(comment.Text) {
				edits = append(edits, s.resourceMarker(file, comment)...)
			}
			if source.IsDirective(comment.Text) {
				continue
			}
			for _, found := range words.FindAllStringIndex(comment.Text, -1) {
				if text := follow[comment.Text[found[0]:found[1]]]; text != "" {
					edits = append(edits, source.Over(from+found[0], from+found[1], text))
				}
			}
		}
	}
	return edits
}

const resourceMarker = "+kubebuilder:resource:"

// resourceMarker gives +kubebuilder:resource the new names. A short name cannot be that of two kinds of a group.
func (s *surgery) resourceMarker(file *project.File, comment *ast.Comment) []source.Edit {
	successor := s.successors[0].successor
	from, to := s.project.Offset(comment.Pos()), s.project.Offset(comment.End())
	// of client-gen
	if before, name, ok := strings.Cut(comment.Text, "+resourceName="); ok && name == s.successors[0].old.Plural {
		return []source.Edit{source.Over(from, to, before+"+resourceName="+successor.Plural)}
	}
	before, arguments, ok := strings.Cut(comment.Text, resourceMarker)
	if !ok {
		return nil
	}
	var kept []string
	for argument := range strings.SplitSeq(arguments, ",") {
		key, value, _ := strings.Cut(argument, "=")
		switch {
		case key == "path":
			argument = key + "=" + successor.Plural
		case key == "singular":
			argument = key + "=" + successor.Singular
		case key == "shortName" && s.group == s.old.Group:
			s.finding(s.project.Place(comment.Pos()),
				"the short name %s belongs to %s as long as it is there: %s has none", value,
				s.successors[0].old.Kind, successor.Kind)
			continue
		}
		kept = append(kept, argument)
	}
	if len(kept) == 0 {
		from, to = source.WholeLines(file.Source, from, to)
		return []source.Edit{source.Over(from, to, "")}
	}
	return []source.Edit{source.Over(from, to, before+resourceMarker+strings.Join(kept, ","))}
}

// registerBeside are the edits that register the new kind beside the old one where a package has one list of its kinds.
func (s *surgery) registerBeside(file *project.File) []source.Edit {
	if !s.inPlace() {
		return nil
	}
	var edits []source.Edit
	add := func(elements []ast.Expr) {
		for i, element := range elements {
			d := s.registered(file, element)
			if d == nil || s.copies[d.Name] == "" {
				continue
			}
			between := ", "
			if i > 0 && s.line(elements[i-1].Pos()) != s.line(element.Pos()) || i+1 < len(elements) &&
				s.line(elements[i+1].Pos()) != s.line(element.Pos()) {
				between = ",\n"
			}
			at := s.project.Offset(element.End())
			edits = append(edits, source.Insert(at, between+"&"+s.copies[d.Name]+"{}"))
		}
	}
	for _, d := range s.graph.Declarations {
		if !d.Anchor {
			continue
		}
		for _, part := range d.Parts {
			for _, node := range part.Nodes() {
				ast.Inspect(node, func(node ast.Node) bool {
					switch node := node.(type) {
					case *ast.CallExpr:
						if part.File == file {
							add(node.Args)
						}
					case *ast.CompositeLit:
						if part.File == file {
							add(node.Elts)
						}
					}
					return true
				})
			}
		}
	}
	return edits
}
