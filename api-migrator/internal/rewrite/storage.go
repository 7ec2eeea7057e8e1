// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// OtherVersions takes the storage marker from third versions of the kinds that move.
func OtherVersions(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.editOtherVersions()
	return s.Result, err
}

const storageMarker = "// +kubebuilder:storageversion"

// storageEdits leaves the storage marker on exactly one version of each kind that moves. What other versions than the
// old and the new one have of it, editOtherVersions sees to.
func (s *editing) storageEdits(file *project.File, at layout.Home) []source.Edit {
	var edits []source.Edit
	if len(s.Successions) > 0 {
		return nil // each CRD has its own
	}
	for _, d := range s.Graph.Declarations {
		if d.File() != file || !slices.Contains(s.Request.Kinds, d.Name) {
			continue
		}
		node := d.Node()
		span, indent := source.SpanOf(s.Project.Fset, file.Syntax, node),
			source.IndentOf(file.Source, s.Project.Offset(node.Pos()))
		var marked *ast.Comment
		var last *ast.Comment // the marker that the new one follows
		for _, group := range file.Syntax.Comments {
			for _, comment := range group.List {
				offset := s.Project.Offset(comment.Pos())
				if offset < span.From || offset >= s.Project.Offset(d.Pos()) {
					continue
				}
				if source.IsMarker(comment.Text) {
					last = comment
				}
				if isStorageMarker(comment) {
					marked = comment
				}
			}
		}
		stores := s.storesAt(d.Name, at)
		switch {
		case stores && marked == nil && last != nil:
			end := s.Project.Offset(last.End())
			edits = append(edits, source.Insert(end, "\n"+indent+storageMarker))
		case stores && marked == nil:
			start := s.Project.Offset(node.Pos())
			edits = append(edits, source.Insert(start, storageMarker+"\n"+indent))
		case !stores && marked != nil:
			edits = append(edits, source.Remove(s.Project.Fset, file.Source, marked))
		}
	}
	return edits
}

func isStorageMarker(comment *ast.Comment) bool {
	return strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")) == "+kubebuilder:storageversion"
}

// storesAt reports whether a kind that moves is to carry the storage marker in a home. Where a third version carries it
// and objects are to be stored as before, neither the old version nor the new one does.
func (s *editing) storesAt(kind string, at layout.Home) bool {
	if s.Request.Storage == request.StorageNew {
		return at == layout.NewPackage
	}
	return at == layout.OldPackage && len(s.markedElsewhere(kind)) == 0
}

// markedElsewhere are the versions of the group, but for the old one, in which a kind carries the storage marker.
func (s *editing) markedElsewhere(kind string) []*project.Version {
	return slices.DeleteFunc(s.Project.Versions(), func(v *project.Version) bool {
		known, ok := v.Kind(kind)
		return v.Package == s.Old.Package || v.Group != s.Old.Group || !ok || !known.Storage
	})
}

// editOtherVersions takes the storage marker from a third version of the kinds that move.
func (s *editing) editOtherVersions() error {
	if s.Request.Storage != request.StorageNew || len(s.Successions) > 0 || s.MovesOnlyImporters() {
		return nil
	}
	for _, kind := range s.Request.Kinds {
		for _, version := range s.markedElsewhere(kind) {
			for _, file := range version.Package.Files {
				if err := s.unmark(file, kind); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// unmark takes the storage marker from the declaration of a kind, as the edits so far leave its file.
func (s *editing) unmark(file *project.File, kind string) error {
	content, why := file.Source, s.Version+" is the storage version now"
	if known := s.Known(file.Path); known != nil {
		content, why = known.Content, known.Why
	}
	syntax, fset, err := source.Parse(content)
	if err != nil {
		return fmt.Errorf("edit %s: %w", file.Path, err)
	}
	for _, decl := range syntax.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		at := slices.IndexFunc(general.Specs, func(spec ast.Spec) bool {
			typed, ok := spec.(*ast.TypeSpec)
			return ok && typed.Name.Name == kind
		})
		if at < 0 {
			continue
		}
		from, to := source.AboveType(syntax, general, general.Specs[at])
		for _, group := range syntax.Comments {
			for _, comment := range group.List {
				if comment.Pos() > from && comment.End() < to && isStorageMarker(comment) {
					first, end := source.WholeLines(content, fset.Position(comment.Pos()).Offset,
						fset.Position(comment.End()).Offset)
					s.Changes[file.Path] = &changeset.Change{Content: []byte(source.Splice(content, 0, len(content),
						[]source.Edit{source.Over(first, end, "")})), Why: why}
					return nil
				}
			}
		}
	}
	return nil
}
