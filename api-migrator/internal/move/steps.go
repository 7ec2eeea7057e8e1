// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"path"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/transaction"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// stepKind says which step of a migration a file belongs to. After each step, in this order, the code compiles: the new
// version needs what is shared; the old one refers to both; and users of the new names mix values of both versions,
// which is possible as soon as the old version's shared types are the new ones.
type stepKind int

const (
	stepShared stepKind = iota
	stepNew
	stepOld
	stepImporters
	stepManifests
	stepRest
)

// stepOf tells by the folder: generated code goes with its package, and each file has one content that it ends with.
func stepOf(l *layout.Layout, file string) stepKind {
	switch folder := path.Dir(file); {
	case folder == l.Dir(layout.SharedPackage) || folder == l.Dir(layout.InternalPackage):
		return stepShared
	case folder == l.Dir(layout.OldPackage): // a kind that is renamed stays there, too
		return stepOld
	case folder == l.Dir(layout.NewPackage):
		return stepNew
	case path.Ext(file) == ".go":
		return stepImporters
	case tree.IsManifest(file):
		return stepManifests
	default:
		return stepRest
	}
}

// joinSteps makes one step of those that do not compile alone. Where old names go, their users change with them. Code
// that embeds a manifest by its name has to change with that name.
func joinSteps(asked request.Request, changes changeset.Set, steps map[string]stepKind) {
	if asked.Shared == request.SharedOld { // the new version needs what the old one exports
		for file, kind := range steps {
			if kind == stepNew {
				steps[file] = stepOld
			}
		}
	}
	first := stepManifests
	for file, kind := range steps {
		if asked.Old == request.OldRemove && kind == stepOld {
			steps[file] = stepImporters
		}
	}
	for file, kind := range steps {
		if changes[file].WithManifests && path.Ext(file) == ".go" {
			first = min(first, kind)
		}
	}
	for file, kind := range steps {
		if first <= kind && kind <= stepManifests {
			steps[file] = stepManifests
		}
	}
}

// inSteps orders the edits by steps.
func (o *Outcome) inSteps() []transaction.Step {
	kinds := strings.Join(o.Plan.Request.Kinds, ", ")
	called := kinds // from now on
	if o.Plan.Request.ToKind != "" {
		called = o.Plan.Request.ToKind
	}
	from, to := o.Plan.Request.From, o.Plan.Request.To
	messages := map[stepKind]string{
		stepShared:    "Share code with " + to,
		stepNew:       "Add " + called + " in " + to,
		stepOld:       "Deprecate " + kinds + " in " + from,
		stepImporters: "Use " + called + " of " + to,
		stepManifests: "Define " + called + " in " + to,
		stepRest:      "List " + called + " in " + to,
	}
	var steps []transaction.Step
	for kind := stepShared; kind <= stepRest; kind++ {
		one := transaction.Step{Message: messages[kind]}
		for _, edit := range o.Plan.Edits {
			if o.steps[edit.File] == kind {
				one.Edits = append(one.Edits, transaction.Edit{File: edit.File, Before: o.Before[edit.File],
					After: o.After[edit.File]})
			}
		}
		if len(one.Edits) > 0 {
			steps = append(steps, one)
		}
	}
	return steps
}
