// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package artifacts changes what a project has besides Go code, as a layout says: manifests, kustomizations and
// PROJECT. It also writes down what is left to commands: generators, and the plan by which objects are copied to a new
// CRD. It changes nothing in a cluster, and claims no conversion from one CustomResourceDefinition to another.
package artifacts

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// documents is what the steps have in common: the layout that they follow, and the result that they fill.
type documents struct {
	*layout.Layout
	changeset.Result
	created map[string]NewCRD                           // by the name of the old kind
	schemas map[string]*apiextensionsv1.JSONSchemaProps // that are generated, by kind; nil if they are copied
	missing map[string]string                           // the first file with what a schema lacks
}

func begin(l *layout.Layout, before changeset.Set) *documents {
	return &documents{Layout: l, Result: changeset.After(before), created: map[string]NewCRD{},
		missing: map[string]string{}}
}

// Manifests gives the kinds' manifests the new version, or creates manifests of new CRDs. It also returns the new CRDs,
// by the name of the old kind.
func Manifests(ctx context.Context, l *layout.Layout, before changeset.Set) (
	result changeset.Result, created map[string]NewCRD, err error,
) {
	s := begin(l, before)
	err = s.editManifests(ctx)
	return s.Result, s.created, err
}

// editManifests adds the new version to the CRD of every kind that moves, as a copy of the old version. CRDs of other
// kinds, and other documents of the same file, keep every byte. If the group or the name changes, it creates a CRD
// instead.
func (s *documents) editManifests(ctx context.Context) error {
	if s.Request.WithoutCRDs {
		return nil
	}
	if s.MovesOnlyImporters() {
		return s.findNewCRDs()
	}
	if err := s.generateSchemas(ctx); err != nil {
		return err
	}
	if err := s.noteReleases(); err != nil {
		return err
	}
	manifests, err := s.Project.Manifests()
	if err != nil {
		return err
	}
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: s.All(),
		Tracked: git.Tracked(ctx, s.Project.Root)}
	if len(s.Successions) > 0 {
		return errors.Join(s.reportUnread(folder, manifests), s.createCRDs(ctx))
	}
	var change crd.Change
	files := make([]string, 0, len(manifests))
	for _, manifest := range manifests {
		files = append(files, manifest.File)
	}
	ignored := git.Ignored(ctx, s.Project.Root, files)
	origins, err := s.origins(manifests)
	if err != nil {
		return err
	}
	for i, manifest := range manifests {
		if !s.isOfMovingKind(manifest.Group, manifest.Kind) ||
			slices.ContainsFunc(manifests[:i], func(m project.Manifest) bool {
				return m.File == manifest.File && s.isOfMovingKind(m.Group, m.Kind) // all of a file at once
			}) {
			continue
		}
		if ignored[manifest.File] {
			s.Note(manifest.File, "git ignores it, so that it is left alone: what has made it has to make it again")
			continue
		}
		if s.leaves(manifest.File) {
			continue
		}
		from, hasSource := origins[manifest.File], s.hasSource(manifest.File, manifests, origins)
		before := change
		problems, err := s.upgradeManifest(ctx, &change, folder, manifest.File)
		switch {
		case err != nil:
			return err
		case len(problems) > 0 && from.isGenerated() && hasSource:
			change = before
			s.Note(manifest.File, "left as it is, because it is generated: %s, and has to write it again. It cannot be "+
				"changed here: %s", from, problems[0])
			continue
		case len(problems) > 0:
			for _, problem := range problems {
				s.Block(manifest.File, "%s. To change the file by hand: --leave %s", problem, shell.Quote(manifest.File))
			}
			continue
		case from.isGenerated():
			s.noteOrigin(manifest.File, from, hasSource)
		}
		if err := s.compareUpgraded(change.Files[len(change.Files)-1], manifests); err != nil {
			return err
		}
	}
	if err := s.reportUnread(folder, manifests); err != nil {
		return err
	}
	err = change.Finish(folder)
	if clash := (*crd.ClashError)(nil); errors.As(err, &clash) {
		s.Block(clash.Old, "%v: use --crd-name keep", clash)
		return nil
	}
	if err != nil {
		return err
	}
	s.takeManifests(&change)
	return nil
}

// noteReleases says once for each folder that manifests of releases stay as they are.
func (s *documents) noteReleases() error {
	released, err := s.Project.Released()
	if err != nil {
		return err
	}
	files := map[string][]string{}
	for _, one := range released {
		name := strings.TrimPrefix(one.File, one.Series+"/")
		if s.isOfMovingKind(one.Group, one.Kind) && !slices.Contains(files[one.Series], name) {
			files[one.Series] = append(files[one.Series], name)
		}
	}
	for dir, names := range files {
		s.Note(dir, "left as it is, with webhooks and roles in the same files: %s, by their names manifests of releases, %d in all",
			names[0], len(names))
	}
	return nil
}

// isOfMovingKind reports whether a CRD is one of those that get the new version.
func (s *documents) isOfMovingKind(group, kind string) bool {
	return group == s.Old.Group && slices.Contains(s.Request.Kinds, kind)
}

// leaves reports whether the author changes a manifest, and says so.
func (s *documents) leaves(file string) bool {
	if !slices.Contains(s.Request.Leave, file) {
		return false
	}
	s.Note(file, "left as it is, as you have asked (--leave): add %s of %s by hand", s.Version,
		strings.Join(s.Request.Kinds, ", "))
	return true
}

// upgradeManifest adds the new version to the CRDs of a file. If it cannot, it says why not.
func (s *documents) upgradeManifest(ctx context.Context, change *crd.Change,
	folder changeset.Folder, file string) (problems []string, err error) {
	text, _, err := folder.Read(file)
	if err != nil {
		return nil, err
	}
	err = change.Upgrade(ctx, file, text, crd.Naming(s.Request.CRDName), crd.Options{
		Only: s.isOfMovingKind, AddVersion: s.Version, CopyOf: s.Old.Version,
		KeepStorage: s.Request.Storage == request.StorageOld, Schemas: s.schemasFor(file, text),
	})
	if refused := (*crd.RefusedError)(nil); errors.As(err, &refused) {
		for _, problem := range refused.Problems {
			problems = append(problems, "the API server would reject the CRD: "+problem)
		}
		return problems, nil
	}
	if err != nil {
		return []string{err.Error()}, nil //nolint:nilerr // it is a problem of the manifest, which the plan shows
	}
	if strings.Contains(text, "controller-gen.kubebuilder.io/version") {
		s.Note(file, "controller-gen has written it: its next run may order and describe the versions in another way")
	}
	return nil, nil
}

// compareUpgraded compares the schemas of the old version and the new one, of the kinds that move and that are in a file.
func (s *documents) compareUpgraded(upgraded crd.FileChange, manifests []project.Manifest) error {
	for _, manifest := range manifests {
		if manifest.File != upgraded.OldPath || !s.isOfMovingKind(manifest.Group, manifest.Kind) {
			continue
		}
		if _, err := s.compareSchemas(manifest.File, manifest.Kind,
			schema{upgraded.Before, s.Old.Group, manifest.Kind, s.Old.Version},
			schema{upgraded.After, s.Old.Group, manifest.Kind, s.Version}); err != nil {
			return err
		}
	}
	return nil
}

// reportUnread finds CRDs of kinds that move in files that are not YAML: templates, documents, code of other languages.
func (s *documents) reportUnread(folder changeset.Folder, manifests []project.Manifest) error {
	paths, err := folder.Paths()
	if err != nil {
		return err
	}
	d := regexp.MustCompile(`\bkind["']?: *["']?` + crd.Kind + `\b`)
	named := regexp.MustCompile(`(?m)^\s+["']?kind["']?: *["']?(` + strings.Join(s.Request.Kinds, "|") + `)["']?,?\s*$`)
	for _, file := range paths {
		text, isText, err := folder.Read(file)
		if err != nil {
			return err
		}
		if !isText || strings.HasPrefix(text, project.StageMark) || !d.MatchString(text) ||
			slices.ContainsFunc(manifests, func(m project.Manifest) bool { return m.File == file }) {
			continue
		}
		if kind := named.FindStringSubmatch(text); kind != nil {
			added := s.Version
			for _, one := range s.Successions {
				if one.Old.Kind == kind[1] {
					added = "the CRD " + nameOf(one.Successor)
				}
			}
			s.Note(file, "has a CRD of %s, but is not YAML: add %s by hand%s", kind[1], added, s.chartAgain(file))
		}
	}
	return nil
}

// noteSize says which CRDs of a manifest become too large for a client-side apply.
func (s *documents) noteSize(file, before, after string) {
	was, sizes := crd.TooLargeToApply(file, before), crd.TooLargeToApply(file, after)
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if _, ok := was[name]; !ok {
			s.Note(file, "%s has %d bytes as JSON: kubectl apply keeps it in an annotation too, and API servers refuse more than "+
				"%d bytes of annotations. Use kubectl apply --server-side (or kubectl create and kubectl replace), or shorten the "+
				"descriptions (crd:maxDescLen=0 of controller-gen)", name, sizes[name], crd.AnnotationLimit)
		}
	}
}

// takeManifests records the changes.
func (s *documents) takeManifests(from *crd.Change) {
	for _, note := range from.Notes {
		s.Note(note.Place, "%s", note.Text)
	}
	for _, file := range from.Files {
		why := "lists the new version"
		if file.Refers {
			why = "names a manifest that is called otherwise now"
		}
		if file.NewPath != file.OldPath {
			s.Changes[file.OldPath] = &changeset.Change{Why: "is called " + file.NewPath + " now"}
		}
		if !file.Refers {
			s.noteSize(file.NewPath, file.Before, file.After)
		}
		if known := s.Known(file.NewPath); known != nil {
			why = known.Why
		}
		s.Changes[file.NewPath] = &changeset.Change{Content: []byte(file.After), Why: why, WithManifests: file.Refers}
	}
}
