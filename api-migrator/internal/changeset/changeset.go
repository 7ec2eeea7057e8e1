// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package changeset holds what becomes of files, each with the reason, and shows a folder as the changes leave it.
package changeset

import (
	"maps"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// PlanMark is the first line of a plan. A plan in the tree names what it renames, so it does not refer to anything.
const PlanMark = "format: api-migrator/v1\n"

// Change is what becomes of a file. A nil content removes it.
type Change struct {
	Content []byte
	Why     string
	// WithManifests: it says what a manifest is called, and must change when that does.
	WithManifests bool
}

// Set holds changes by the path of their file.
type Set map[string]*Change

// Result is what one step of a migration returns: its changes and its findings.
type Result struct {
	Changes Set
	finding.Report
	before Set
}

// After is the empty result of a step that follows others, whose changes it sees.
func After(before Set) Result { return Result{Changes: Set{}, before: before} }

// Known is the change that this step or an earlier one makes of a file; nil without one.
func (r *Result) Known(file string) *Change {
	if change := r.Changes[file]; change != nil {
		return change
	}
	return r.before[file]
}

// All is the set of all changes so far.
func (r *Result) All() Set {
	all := Set{}
	all.Add(r.before)
	all.Add(r.Changes)
	return all
}

// Add adds changes; later ones replace earlier ones.
func (s Set) Add(others Set) {
	maps.Copy(s, others)
}

// Folder is the project's folder as the edits so far leave it.
type Folder struct {
	tree.Folder
	Changes Set
	// Tracked are the files that git tracks; nil outside of a repository. Other files, such as a saved patch, are not
	// source, and git could not restore them.
	Tracked map[string]bool
}

// Paths leaves out what is going to be removed and manifests of releases, and adds what is going to be there.
func (f Folder) Paths() ([]string, error) {
	paths, err := f.Folder.Paths()
	if err != nil {
		return nil, err
	}
	releases := tree.Releases(paths)
	paths = slices.DeleteFunc(paths, func(path string) bool {
		return f.Changes[path] != nil || releases[path] != "" ||
			f.Tracked != nil && !f.Tracked[path]
	})
	for path, change := range f.Changes {
		if change.Content != nil {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// Read prefers what a file is going to be. A plan does not count as text: it names what it renames.
func (f Folder) Read(path string) (text string, isText bool, err error) {
	if change := f.Changes[path]; change != nil && change.Content != nil {
		return string(change.Content), true, nil
	}
	text, isText, err = f.Folder.Read(path)
	return text, isText && !strings.HasPrefix(text, PlanMark), err
}
