// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"go/types"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/typeschema"
)

// schema is that of one version in the manifest of a kind's CRD.
type schema struct {
	text, group, kind, version string
}

// compareSchemas reports what the Go type of a kind writes and API servers drop because of the schema after. Fields that
// the schema before keeps are blockers, since objects may have them. It returns the others.
func (s *documents) compareSchemas(file, kind string, before, after schema) (missing []typeschema.Field, err error) {
	declared := s.Old.Package.Types.Scope().Lookup(kind).Type()
	was, droppedBefore, err := before.drops(file, declared)
	if err != nil {
		return nil, err
	}
	is, droppedAfter, err := after.drops(file, declared)
	if err != nil {
		return nil, err
	}
	if len(s.Successions) > 0 {
		was, is = "the old CRD", "the new CRD"
	}
	lost, missing := typeschema.Lost(droppedBefore, droppedAfter)
	for _, fields := range groups(lost) {
		s.Block(file, "objects would lose fields that Go code writes: the schema of %s keeps them, and that of %s drops "+
			"them: %s", was, is, described(s.Project, fields))
	}
	s.reportMissing(file, was, is, missing)
	if err := s.compareGenerated(file, before, after); err != nil {
		return nil, err
	}
	return missing, s.reportReaders(file, after)
}

// reportMissing reports fields that both schemas lack. Projects keep copies of a CRD, for a chart for example: what is
// the same in a copy is one finding.
func (s *documents) reportMissing(file, was, is string, missing []typeschema.Field) {
	if len(missing) == 0 {
		return
	}
	var texts []string
	for _, fields := range groups(missing) {
		texts = append(texts, fmt.Sprintf("API servers drop fields that Go code writes, since the schema of %s lacks them, as "+
			"that of %s does: %s", is, was, described(s.Project, fields)))
	}
	all := strings.Join(texts, "\n")
	if first, isCopy := s.missing[all]; isCopy && first != file {
		s.Note(file, "the schema of %s lacks the same fields here as in %s, and API servers drop them", is, first)
		return
	}
	s.missing[all] = file
	for _, text := range texts {
		s.Note(file, "%s", text)
	}
}

// reportReaders reports printer columns and the scale subresource where they read fields that API servers drop.
func (s *documents) reportReaders(file string, one schema) error {
	d, err := crd.Find(file, one.text, one.group, one.kind)
	if err != nil {
		return err
	}
	unread, err := d.Unread(one.version)
	if err != nil {
		return err
	}
	for _, problem := range unread {
		s.Note(file, "%s", problem)
	}
	return nil
}

// drops returns the version whose schema is compared, and the fields of a kind that API servers drop because of it.
func (one schema) drops(file string, kind types.Type) (version string, dropped []typeschema.Field, err error) {
	d, err := crd.Find(file, one.text, one.group, one.kind)
	if err != nil {
		return "", nil, err
	}
	version = one.version
	if !slices.Contains(d.Versions(), version) {
		version = d.Storage() // which a new CRD is made from then
	}
	structural, err := d.Structural(version)
	if err != nil {
		return "", nil, err
	}
	dropped, err = typeschema.Dropped(kind, structural)
	return version, dropped, err
}

// groups puts fields together that one object has from one struct.
func groups(all []typeschema.Field) [][]typeschema.Field {
	var found [][]typeschema.Field
	for _, field := range all {
		i := slices.IndexFunc(found, func(fields []typeschema.Field) bool {
			other := fields[0]
			return other.Parent() == field.Parent() && other.Struct == field.Struct && other.Unknown == field.Unknown
		})
		if i < 0 {
			i = len(found)
			found = append(found, nil)
		}
		found[i] = append(found[i], field)
	}
	return found
}

// described lists fields with the place of the first one.
func described(p *project.Project, fields []typeschema.Field) string {
	names := make([]string, 0, len(fields))
	more := ""
	for _, field := range fields {
		names = append(names, field.Path)
		if field.Inline {
			more += fmt.Sprintf(". encoding/json does not inline %s, because the field has a name, though controller-gen "+
				"does: embed the struct, or give the field a name in JSON", field.Name)
		}
	}
	if first := fields[0]; first.Unknown != "" {
		more = ". Only the method MarshalJSON of " + first.Unknown + " knows what it writes"
	}
	return strings.Join(names, ", ") + declared(p, fields[0]) + more
}

// declared says where a field is declared.
func declared(p *project.Project, field typeschema.Field) string {
	var where []string
	if field.Struct != "" {
		where = append(where, field.Struct)
	}
	if place := p.Place(field.Pos); !strings.HasPrefix(place, "../") && !path.IsAbs(place) {
		where = append(where, place)
	}
	if len(where) == 0 {
		return ""
	}
	return " (" + strings.Join(where, ", ") + ")"
}
