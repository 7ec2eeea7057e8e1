// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"cmp"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// copyEdits are the edits that rename what is declared in a file for the new kind, in code and comments.
func (s *creation) copyEdits(file *project.File) []source.Edit {
	if s.Renaming == nil {
		return nil
	}
	edits := s.commentEdits(file)
	rename := func(ident *ast.Ident) {
		if name := s.CopyOf(ident.Name); name != "" {
			edits = append(edits, source.Replace(s.Project.Fset, ident, name))
		}
	}
	for ident, object := range file.Info.Defs {
		if s.InFile(file, ident) && object != nil && s.Graph.Owner(object) != nil {
			rename(ident)
		}
	}
	return slices.Concat(edits, s.embeddedFields(file), s.kindLiterals(file))
}

// kindLiterals are the strings that are the kind's name, in what is copied: the copy is about the new kind.
func (s *creation) kindLiterals(file *project.File) []source.Edit {
	old, successor := s.Successions[0].Old, s.Successions[0].Successor
	with := map[string]string{old.Kind: successor.Kind, old.List: successor.List}
	var edits []source.Edit
	for _, d := range s.Graph.Declarations {
		if !s.GoesTo(d, layout.NewPackage) {
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
					edits = append(edits, source.Replace(s.Project.Fset, literal, strconv.Quote(with[value])))
					if d.What != "const" {
						s.Note(s.Project.Place(literal.Pos()), "%s says %q; the copy for the new kind says %q",
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
func (s *creation) commentEdits(file *project.File) []source.Edit {
	old, successor := s.Successions[0].Old, s.Successions[0].Successor
	follow := s.Copies()
	follow[old.Plural], follow[old.Singular] = successor.Plural, successor.Singular
	follow[old.Kind+"s"] = cmp.Or(follow[old.Kind+"s"], successor.Kind+"s")
	var edits []source.Edit
	for _, group := range file.Syntax.Comments {
		for _, comment := range group.List {
			from := s.Project.Offset(comment.Pos())
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
func (s *creation) resourceMarker(file *project.File, comment *ast.Comment) []source.Edit {
	successor := s.Successions[0].Successor
	from, to := s.Project.Offset(comment.Pos()), s.Project.Offset(comment.End())
	// of client-gen
	if before, name, ok := strings.Cut(comment.Text, "+resourceName="); ok && name == s.Successions[0].Old.Plural {
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
		case key == "shortName" && s.Group == s.Old.Group:
			s.Note(s.Project.Place(comment.Pos()),
				"the short name %s belongs to %s as long as it is there: %s has none", value,
				s.Successions[0].Old.Kind, successor.Kind)
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
