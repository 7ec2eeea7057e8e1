// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// samplesFolder is where kubebuilder and operator-sdk put an object of each version.
const samplesFolder = "samples"

// Samples repeats the samples of the kinds that move for the new version, and lists them in the kustomizations that
// list the old ones. The old samples keep every byte: the old version is still served. Samples of another CRD are left
// to the author, who copies objects.
func Samples(ctx context.Context, l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.repeatSamples(ctx)
	return s.Result, err
}

func (s *documents) repeatSamples(ctx context.Context) error {
	if len(s.Successions) > 0 || s.MovesOnlyImporters() {
		return nil
	}
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: s.All(),
		Tracked: git.Tracked(ctx, s.Project.Root)}
	files, err := folder.Paths()
	if err != nil {
		return err
	}
	for _, file := range files {
		name := s.sampleName(file)
		if name == "" || slices.Contains(files, name) {
			continue
		}
		text, isText, err := folder.Read(file)
		if err != nil {
			return err
		}
		sample, ok := s.sample(text)
		if !isText || !ok {
			continue
		}
		s.Changes[name] = &changeset.Change{Content: []byte(sample), Why: "a sample of the new version, after " + file}
		if err := s.listNextTo(file, name, "lists the new sample"); err != nil {
			return err
		}
	}
	return nil
}

// sampleName is what the new version's copy of a sample is called; empty for a file that is no sample, or whose name
// does not say the old version.
func (s *documents) sampleName(file string) string {
	word := regexp.MustCompile(`(^|[_.-])` + s.Old.Version + `([_.-])`)
	base := path.Base(file)
	if path.Base(path.Dir(file)) != samplesFolder || !slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)) ||
		!word.MatchString(base) {
		return ""
	}
	return path.Join(path.Dir(file), word.ReplaceAllString(base, "${1}"+s.Version+"${2}"))
}

// sample is an object of a kind that moves in the new version. It reports false for anything else, also for several
// objects in one file.
func (s *documents) sample(text string) (string, bool) {
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	line := regexp.MustCompile(`(?m)^(apiVersion:[ \t]*["']?)` + regexp.QuoteMeta(s.Old.Name()) +
		`(["']?[ \t]*(#.*)?\r?)$`)
	if strings.Contains(text, "\n---") || yaml.Unmarshal([]byte(text), &object) != nil ||
		object.APIVersion != s.Old.Name() || !slices.Contains(s.Request.Kinds, object.Kind) || len(line.FindAllString(text, -1)) != 1 {
		return "", false
	}
	return line.ReplaceAllString(text, "${1}"+s.Group+"/"+s.Version+"${2}"), true
}
