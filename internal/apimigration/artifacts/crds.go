// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/changeset"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// createCRDs writes the manifest of each new CRD next to that of the old one, which keeps every byte.
func (s *documents) createCRDs(ctx context.Context) error {
	for i := range s.Successions {
		one := &s.Successions[i]
		for _, manifest := range one.Manifests {
			if err := s.createCRD(ctx, one, manifest); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *documents) createCRD(ctx context.Context, one *layout.Succession, manifest project.Manifest) error {
	content, err := tree.ReadIfThere(s.Project.Root, manifest.File)
	if err != nil {
		return err
	}
	outcome, err := crd.Succeed(ctx, manifest.File, string(content), crd.Succession{
		Group: s.Old.Group, Kind: one.Old.Kind, Version: s.Old.Version, To: one.Successor, ToVersion: s.Version,
	})
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			s.Block(manifest.File, "the API server would reject the new CRD: %s", problem)
		}
		return nil
	}
	if err != nil {
		s.Block(manifest.File, "%v", err)
		return nil
	}
	naming := crd.Naming(s.Request.CRDName)
	if naming != crd.Canonical && strings.HasSuffix(manifest.File, "_crd.yaml") {
		naming = crd.SDK // as the old one is called
	} else if naming != crd.SDK {
		naming = crd.Canonical
	}
	name := naming.Name(manifest.File, outcome)
	existing, err := tree.ReadIfThere(s.Project.Root, name)
	if err != nil {
		return err
	}
	if existing != nil || s.Known(name) != nil {
		s.Block(manifest.File, "the new CRD would be %s, which exists already", name)
		return nil
	}
	for _, note := range outcome.Notes {
		s.Note(manifest.File, "%s", note)
	}
	s.created[one.Old.Kind] = append(s.created[one.Old.Kind], name)
	s.Changes[name] = &changeset.Change{Content: []byte(outcome.Text), Why: "the CRD of " +
		one.Successor.Kind + " in " +
		s.Group + ", after " + manifest.File}
	return s.listCRD(manifest.File, name)
}

// listCRD adds a new manifest to the kustomizations that list the old one.
func (s *documents) listCRD(old, created string) error {
	for folder := path.Dir(old); ; folder = path.Dir(folder) {
		for _, base := range []string{"kustomization.yaml", "kustomization.yml"} {
			name := path.Join(folder, base)
			content, err := tree.ReadIfThere(s.Project.Root, name)
			if err != nil {
				return err
			}
			if known := s.Known(name); known != nil {
				content = known.Content
			}
			if text, ok := listBeside(string(content), folder, old, created); ok {
				s.Changes[name] = &changeset.Change{Content: []byte(text), Why: "lists the new CRD"}
			}
		}
		if folder == "." {
			return nil
		}
	}
}

// listBeside repeats the line of a kustomization that lists a file, for one of the same folder.
func listBeside(content, folder, old, created string) (string, bool) {
	lines := strings.SplitAfter(content, "\n")
	i := slices.IndexFunc(lines, func(line string) bool {
		line, _, _ = strings.Cut(line, " #")
		item, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		return ok && path.Join(folder, strings.Trim(strings.TrimSpace(item), `"'`)) == old
	})
	if i < 0 {
		return "", false
	}
	line := strings.Replace(lines[i], path.Base(old), path.Base(created), 1)
	if !strings.HasSuffix(line, "\n") { // the last one
		lines[i] += "\n"
	}
	return strings.Join(slices.Insert(lines, i+1, line), ""), true
}
