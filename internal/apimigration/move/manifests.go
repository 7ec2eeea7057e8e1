// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/git"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// editManifests gives every definition of a kind that moves the new version, as a copy of the old one. Definitions of
// other kinds, and other documents of the same file, keep every byte. Where the group or the name is another, there is
// a definition of its own instead.
func (s *surgery) editManifests(ctx context.Context) error {
	if s.request.WithoutCRDs {
		return nil
	}
	if len(s.successors) > 0 {
		return s.createDefinitions(ctx)
	}
	manifests, err := s.project.Manifests()
	if err != nil {
		return err
	}
	var change crd.Change
	folder := edited{Folder: tree.Folder(s.project.Root), files: s.files, tracked: git.Tracked(ctx, s.project.Root)}
	files := make([]string, 0, len(manifests))
	for _, manifest := range manifests {
		files = append(files, manifest.File)
	}
	ignored := git.Ignored(ctx, s.project.Root, files)
	for i, manifest := range manifests {
		if !s.isOfMovingKind(manifest.Group, manifest.Kind) ||
			slices.ContainsFunc(manifests[:i], func(m project.Manifest) bool {
				return m.File == manifest.File && s.isOfMovingKind(m.Group, m.Kind) // all of a file at once
			}) {
			continue
		}
		if ignored[manifest.File] {
			s.finding(manifest.File, "git ignores it, so that it is left alone: what has made it has to make it again")
			continue
		}
		if err := s.upgradeManifest(ctx, &change, folder, manifest.File); err != nil {
			return err
		}
	}
	if err := s.reportUnread(folder, manifests); err != nil {
		return err
	}
	err = change.Finish(folder)
	if clash := (*crd.ClashError)(nil); errors.As(err, &clash) {
		s.blocker(clash.Old, "%v: use --crd-name keep", clash)
		return nil
	}
	if err != nil {
		return err
	}
	s.takeManifests(&change)
	return nil
}

// isOfMovingKind reports whether a definition is one of those that get the new version.
func (s *surgery) isOfMovingKind(group, kind string) bool {
	return group == s.old.Group && slices.Contains(s.request.Kinds, kind)
}

func (s *surgery) upgradeManifest(ctx context.Context, change *crd.Change, folder edited, file string) error {
	text, _, err := folder.Read(file)
	if err != nil {
		return err
	}
	err = change.Upgrade(ctx, file, text, crd.Naming(s.request.CRDName), crd.Options{
		Only: s.isOfMovingKind, AddVersion: s.version, CopyOf: s.old.Version,
		KeepStorage: s.request.Storage == StorageOld,
	})
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			s.blocker(file, "the API server would not take the definition: %s", problem)
		}
		return nil
	}
	if err != nil {
		s.blocker(file, "%v", err)
	}
	if strings.Contains(text, "controller-gen.kubebuilder.io/version") {
		s.finding(file, "controller-gen has written it: its next run may order and describe the versions in another way")
	}
	return nil
}

// reportUnread finds definitions of kinds that move in what is no YAML: templates, documents, code of other languages.
func (s *surgery) reportUnread(folder edited, manifests []project.Manifest) error {
	paths, err := folder.Paths()
	if err != nil {
		return err
	}
	definition := regexp.MustCompile(`\bkind["']?: *["']?` + crd.Kind + `\b`)
	named := regexp.MustCompile(`(?m)^\s+["']?kind["']?: *["']?(` + strings.Join(s.request.Kinds, "|") + `)["']?,?\s*$`)
	for _, path := range paths {
		text, isText, err := folder.Read(path)
		if err != nil {
			return err
		}
		if !isText || strings.HasPrefix(text, project.StageMark) || !definition.MatchString(text) ||
			slices.ContainsFunc(manifests, func(m project.Manifest) bool { return m.File == path }) {
			continue
		}
		if kind := named.FindStringSubmatch(text); kind != nil {
			s.finding(path, "has a definition of %s, but is no YAML: give it %s by hand", kind[1], s.version)
		}
	}
	return nil
}

// takeManifests makes the changes the surgery's own.
func (s *surgery) takeManifests(from *crd.Change) {
	for _, note := range from.Notes {
		s.finding(note.Place, "%s", note.Text)
	}
	for _, file := range from.Files {
		why := "lists the new version"
		if file.Refers {
			why = "names a manifest that is called otherwise now"
		}
		if file.NewPath != file.OldPath {
			s.files[file.OldPath] = &change{why: "is called " + file.NewPath + " now"}
		}
		if known := s.files[file.NewPath]; known != nil {
			why = known.why
		}
		s.files[file.NewPath] = &change{content: []byte(file.After), why: why, withManifests: file.Refers}
	}
}

// edited is the project's folder as the edits so far leave it.
type edited struct {
	tree.Folder
	files map[string]*change
	// tracked are the files that git knows; nil where there is no git. What else lies there, such as a patch that
	// somebody has saved, is nobody's source, and could not be had back.
	tracked map[string]bool
}

// Paths leaves out what is going to be removed, and adds what is going to be there.
func (e edited) Paths() ([]string, error) {
	paths, err := e.Folder.Paths()
	if err != nil {
		return nil, err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return e.files[path] != nil ||
			e.tracked != nil && !e.tracked[path]
	})
	for path, change := range e.files {
		if change.content != nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// Read prefers what a file is going to be. A plan is no text: it names what it renames.
func (e edited) Read(path string) (text string, isText bool, err error) {
	if change := e.files[path]; change != nil && change.content != nil {
		return string(change.content), true, nil
	}
	text, isText, err = e.Folder.Read(path)
	return text, isText && !strings.HasPrefix(text, "format: "+Format+"\n"), err
}
