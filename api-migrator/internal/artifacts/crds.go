// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// createCRDs writes the manifest of each new CRD next to that of the old one, which keeps every byte.
func (s *documents) createCRDs(ctx context.Context) error {
	var manifests []project.Manifest
	for _, one := range s.Successions {
		manifests = append(manifests, one.Manifests...)
	}
	origins, err := s.origins(manifests)
	if err != nil {
		return err
	}
	for i := range s.Successions {
		one := &s.Successions[i]
		for _, manifest := range one.Manifests {
			if from := origins[manifest.File]; from.isGenerated() && s.hasSource(manifest.File, manifests, origins) {
				s.Note(manifest.File, "generated: %s; run that after apply, for the CRD of %s", from, one.Successor.Kind)
				continue
			}
			if s.leaves(manifest.File) {
				continue
			}
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
		Schema: s.schemasFor(manifest.File, string(content))[one.Old.Kind],
	})
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			s.Block(manifest.File, "the API server would reject the new CRD: %s. To write it by hand: --leave %s", problem,
				shell.Quote(manifest.File))
		}
		return nil
	}
	if err != nil {
		s.Block(manifest.File, "%v. To write the new CRD by hand: --leave %s", err, shell.Quote(manifest.File))
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
	missing, err := s.compareSchemas(manifest.File, one.Old.Kind,
		schema{string(content), s.Old.Group, one.Old.Kind, s.Old.Version},
		schema{outcome.Text, s.Group, one.Successor.Kind, s.Version})
	if err != nil {
		return err
	}
	for _, note := range outcome.Notes {
		s.Note(manifest.File, "%s", note)
	}
	s.noteSize(name, "", outcome.Text)
	created := s.created[one.Old.Kind]
	created.add(name, outcome.CRDs[0].ShortNames())
	for _, field := range missing {
		if top, _, _ := strings.Cut(field.Path, "."); top == "status" && !slices.Contains(created.DropsOfStatus, field.Path) {
			created.DropsOfStatus = append(created.DropsOfStatus, field.Path)
		}
	}
	s.created[one.Old.Kind] = created
	s.Changes[name] = &changeset.Change{Content: []byte(outcome.Text), Why: "the CRD of " +
		one.Successor.Kind + " in " +
		s.Group + ", after " + manifest.File}
	return s.listNextTo(manifest.File, name, "lists the new CRD")
}

// findNewCRDs finds the manifests of CRDs that an earlier plan, or someone by hand, has made for another group.
func (s *documents) findNewCRDs() error {
	manifests, err := s.Project.Manifests()
	if err != nil {
		return err
	}
	for _, one := range s.Successions {
		created := NewCRD{}
		for _, manifest := range manifests {
			if manifest.Group != one.Successor.Group || manifest.Kind != one.Successor.Kind {
				continue
			}
			content, err := tree.ReadIfThere(s.Project.Root, manifest.File)
			if err != nil {
				return err
			}
			d, err := crd.Find(manifest.File, string(content), manifest.Group, manifest.Kind)
			if err != nil {
				return err
			}
			created.add(manifest.File, d.ShortNames())
		}
		s.created[one.Old.Kind] = created
		if len(created.Files) == 0 {
			s.Warn(s.Dir(layout.NewPackage), "no manifest has the CRD of %s in %s, without which the operator finds no such resource: "+
				"write it after the old one", one.Successor.Kind, s.Group)
		}
	}
	return nil
}

// kustomizations are the names by which kustomize finds its file in a folder.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml"}

// listNextTo adds a new manifest to the kustomizations that list the old one.
func (s *documents) listNextTo(old, created, why string) error {
	for folder := path.Dir(old); ; folder = path.Dir(folder) {
		for _, base := range kustomizations {
			name := path.Join(folder, base)
			content, err := tree.ReadIfThere(s.Project.Root, name)
			if err != nil {
				return err
			}
			if known := s.Known(name); known != nil {
				content = known.Content
			}
			if text, ok := listBeside(string(content), folder, old, created); ok {
				s.Changes[name] = &changeset.Change{Content: []byte(text), Why: why}
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
