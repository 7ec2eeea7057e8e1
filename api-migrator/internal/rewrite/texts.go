// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// whyTexts is the reason of a change that concerns texts alone.
const whyTexts = "names the new version"

// Texts gives the objects of kinds that move the new version in documents, examples and scripts, if the request asks
// for it.
func Texts(ctx context.Context, l *layout.Layout, before changeset.Set,
	uses *mention.Reader) (changeset.Result, error) {
	s := begin(l, before)
	if l.Request.Strings != request.StringsRewrite {
		return s.Result, nil
	}
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: s.All(),
		Tracked: git.Tracked(ctx, s.Project.Root)}
	files, err := folder.Paths()
	if err != nil {
		return s.Result, err
	}
	manifests, err := s.Project.Manifests()
	if err != nil {
		return s.Result, err
	}
	for _, file := range files {
		isCRD := slices.ContainsFunc(manifests, func(m project.Manifest) bool { return m.File == file })
		if isCRD || s.isOfOldVersion(file) || !isDocument(file) && !isExample(file, files) {
			continue
		}
		text, isText, err := folder.Read(file)
		if err != nil {
			return s.Result, err
		}
		if !isText || !isDocument(file) && (project.SaysGenerated(text) ||
			strings.Contains(text, "kind: ClusterServiceVersion")) {
			continue
		}
		if again := uses.RestatedText(text); again != text {
			change := changeset.Change{Why: whyTexts}
			if known := s.Known(file); known != nil {
				change = *known
			}
			change.Content = []byte(again)
			s.Changes[file] = &change
		}
	}
	return s.Result, nil
}

// isOfOldVersion reports whether the name of a file or of its folder says the old version: it is about that one.
func (s *editing) isOfOldVersion(file string) bool {
	return regexp.MustCompile(`(^|[/_.-])` + regexp.QuoteMeta(s.Old.Version) + `([/_.-]|$)`).MatchString(file)
}

// past are documents that tell what was.
var past = regexp.MustCompile(`(?i)(^|/)(change[-_]?logs?|history|releases?|release[-_]notes)([/._-]|$)`)

// isDocument recognises documents and scripts.
func isDocument(file string) bool {
	return slices.Contains([]string{".md", ".adoc", ".rst", ".txt", ".sh", ".bash"}, path.Ext(file)) &&
		!past.MatchString(file) && !isIn(file, "testdata")
}

// isExample recognises manifests that no other file has to agree with. A kustomization finds what it patches by its
// version, a chart may be installed where the new version is not served, and tests compare files with what they expect.
func isExample(file string, files []string) bool {
	if !tree.IsManifest(file) || isIn(file, "testdata") ||
		isIn(file, "templates") {
		return false
	}
	kustomizations := []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
	return !slices.ContainsFunc(files, func(other string) bool {
		folder := path.Dir(other)
		return slices.Contains(kustomizations, path.Base(other)) &&
			(folder == "." || strings.HasPrefix(file, folder+"/"))
	})
}

func isIn(file, folder string) bool { return strings.Contains("/"+file, "/"+folder+"/") }

// restate gives the texts of the file that certainly mean kinds that move the new version. It reports whether there are
// any.
func (i *importer) restate() bool {
	texts := i.uses.Restated(i.pkg, i.file)
	for literal, text := range texts {
		i.edits = append(i.edits, source.Replace(i.Project.Fset, literal, text))
	}
	return len(texts) > 0
}
