// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// origin says what writes a manifest. The zero value: its author does, or controller-gen after the Go types.
type origin struct {
	run, tool string // the command, and the program that it runs; empty if they are not known
	header    bool   // the file says that it is generated
}

func (o origin) isGenerated() bool { return o.run != "" || o.header }

func (o origin) String() string {
	switch {
	case o.run == "":
		return "its header says that it is generated"
	case o.tool == "":
		return fmt.Sprintf("`%s` writes it", o.run)
	}
	return fmt.Sprintf("`%s` writes it (%s)", o.run, o.tool)
}

// origins finds what writes the manifests of the kinds that move.
func (s *documents) origins(manifests []project.Manifest) (map[string]origin, error) {
	recipes, err := s.recipes()
	if err != nil {
		return nil, err
	}
	found := map[string]origin{}
	for _, manifest := range manifests {
		if !s.isOfMovingKind(manifest.Group, manifest.Kind) {
			continue
		}
		content, err := tree.ReadIfThere(s.Project.Root, manifest.File)
		if err != nil {
			return nil, err
		}
		one := origin{header: project.SaysGenerated(string(content))}
		if i := slices.IndexFunc(recipes, func(r recipe) bool { return r.writes(manifest.File) }); i >= 0 {
			one.run, one.tool = recipes[i].run, recipes[i].tool
		}
		found[manifest.File] = one
	}
	return found, nil
}

// hasSource reports whether each kind that moves and is in a file is in another file too, which its author or
// controller-gen writes.
func (s *documents) hasSource(file string, manifests []project.Manifest, origins map[string]origin) bool {
	return !slices.ContainsFunc(manifests, func(m project.Manifest) bool {
		return m.File == file && s.isOfMovingKind(m.Group, m.Kind) &&
			!slices.ContainsFunc(manifests, func(other project.Manifest) bool {
				return other.Group == m.Group && other.Kind == m.Kind && !origins[other.File].isGenerated() &&
					!slices.Contains(s.Request.Leave, other.File)
			})
	})
}

// noteOrigin says what has to follow where a generated manifest was changed.
func (s *documents) noteOrigin(file string, from origin, hasSource bool) {
	then := "run it after apply"
	if from.run == "" {
		then = "run its generator after apply"
	}
	if !hasSource {
		then += fmt.Sprintf(", once what it reads has %s: no other manifest of the kind is its source, and its next run "+
			"would remove %s again", s.Version, s.Version)
	}
	s.Note(file, "generated, and changed all the same: %s; %s", from, then)
}
