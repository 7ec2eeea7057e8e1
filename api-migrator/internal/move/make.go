// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/mention"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/progress"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/rewrite"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/transaction"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/webhook"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// Outcome is a plan with the contents that its edits stand for. A nil content is a file that is not there.
type Outcome struct {
	Plan          *Plan
	Root          string
	Before, After map[string][]byte
	steps         map[string]stepKind // by file
}

// gathered is what a plan is made from.
type gathered struct {
	project *project.Project
	old     *project.Version
	request request.Request // with defaults
	report  finding.Report  // about code that does not compile
	// ignored are files that git ignores, in packages that do not compile. left are the packages of nothing else.
	ignored ignoredFiles
	left    map[string]bool
}

// edits is what becomes of the tree.
type edits struct {
	changeset.Result
	finalizers []string                    // that say the old name
	created    map[string]artifacts.NewCRD // by the name of the old kind
}

// Make plans a request for the project in dir. It writes nothing there.
func Make(ctx context.Context, dir string, asked request.Request) (*Outcome, error) {
	outcome, copied, err := compose(ctx, dir, asked)
	if err != nil || copied == nil {
		return outcome, err
	}
	defer copied.remove()
	problem, err := copied.compile(ctx)
	if err != nil {
		return nil, err
	}
	if problem != nil {
		outcome.Plan.Blockers = append(outcome.Plan.Blockers, *problem)
	}
	return outcome, nil
}

// compose plans a request, but for what the compiler says of the outcome. The copy, which the caller removes, has the
// edits and what is generated from them; there is none if the plan has blockers. Nothing that is returned refers to the
// project with its syntax and types: a large one takes hundreds of MiB, and so does the copy when it is loaded.
func compose(ctx context.Context, dir string, asked request.Request) (outcome *Outcome, copied *editedCopy, err error) {
	from, err := gather(ctx, dir, asked)
	if err != nil {
		return nil, nil, err
	}
	l, edits, err := from.changes(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(edits.Blockers) == 0 {
		if copied, err = newCopy(ctx, l, edits, from.ignored); err != nil {
			return nil, nil, err
		}
	}
	if outcome, err = newOutcome(l, edits); err != nil {
		copied.remove()
		return nil, nil, err
	}
	return outcome, copied, nil
}

// changes decides where everything goes, and computes what becomes of each file but for what is generated.
func (g *gathered) changes(ctx context.Context) (*layout.Layout, *edits, error) {
	progress.Step(ctx, "deciding where declarations go, and editing")
	l, report, err := decide(g)
	if err != nil {
		return nil, nil, err
	}
	all, err := edit(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	all.Report.Add(report)
	all.Report.Add(g.report)
	return l, all, nil
}

func newOutcome(l *layout.Layout, edits *edits) (*Outcome, error) {
	outcome := &Outcome{Plan: newPlan(l, edits), Root: l.Project.Root, Before: map[string][]byte{},
		After: map[string][]byte{}, steps: map[string]stepKind{}}
	if err := outcome.fill(l, edits.Changes); err != nil {
		return nil, err
	}
	outcome.Plan.Tree = outcome.treeHash(l.Project)
	return outcome, nil
}

// gather reads the project and refuses a request that cannot be meant for it.
func gather(ctx context.Context, dir string, asked request.Request) (*gathered, error) {
	workspace, err := project.Find(dir)
	if err != nil {
		return nil, err
	}
	if err := transaction.CheckFinished(workspace.Root); err != nil {
		return nil, err
	}
	p, err := project.LoadWorkspace(ctx, workspace)
	if err != nil {
		return nil, err
	}
	return examine(ctx, p, asked)
}

// examine refuses a request that cannot be meant for a project, and leaves code out that is not understood.
func examine(ctx context.Context, p *project.Project, asked request.Request) (*gathered, error) {
	from, err := check(p, asked)
	if known := (*hint.Error)(nil); errors.As(err, &known) && len(p.Broken) > 0 {
		return nil, hint.Errorf(known.Try, "%w (code that does not compile may be the reason: %s)", err, p.Broken[0].First())
	}
	if err != nil {
		return nil, err
	}
	from.report, err = from.checkBroken(ctx)
	return from, err
}

// check refuses a request that cannot be meant for a project.
func check(p *project.Project, asked request.Request) (*gathered, error) {
	from := &gathered{project: p, request: asked.WithDefaults()}
	var err error
	if from.old, err = from.request.Check(p); err != nil {
		return nil, err
	}
	return from, checkComments(p, from.old)
}

// decide chooses where everything goes.
func decide(from *gathered) (*layout.Layout, finding.Report, error) {
	return layout.Decide(from.project, from.old, from.request)
}

// edit computes what becomes of each file, step by step.
func edit(ctx context.Context, l *layout.Layout) (*edits, error) {
	all := &edits{Result: changeset.After(nil)}
	add := func(one changeset.Result, err error) error {
		all.Changes.Add(one.Changes)
		all.Report.Add(one.Report)
		return err
	}
	uses := mention.NewReader(l)
	created, whole, err := rewrite.Create(l, uses)
	if err := add(created, err); err != nil {
		return nil, err
	}
	reread := changeset.Set{}
	for _, step := range []func(*layout.Layout, changeset.Set) (changeset.Result, error){
		func(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
			return rewrite.Old(l, before, whole, uses)
		},
		rewrite.Tests,
		func(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
			return rewrite.Importers(l, before, uses)
		},
		rewrite.OtherVersions, rewrite.GroupFile, rewrite.Markers, artifacts.ProjectFile,
		func(l *layout.Layout, before changeset.Set) (result changeset.Result, err error) {
			result, all.created, err = artifacts.Manifests(ctx, l, before)
			return result, err
		},
		func(l *layout.Layout, before changeset.Set) (result changeset.Result, err error) {
			return artifacts.Roles(ctx, l, before)
		},
		func(l *layout.Layout, before changeset.Set) (result changeset.Result, err error) {
			result, err = webhook.Change(ctx, l, before)
			reread.Add(result.Changes)
			return result, err
		},
		func(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
			return artifacts.Samples(ctx, l, before)
		},
		artifacts.Conversions,
		rewrite.Removal,
		func(l *layout.Layout, before changeset.Set) (result changeset.Result, err error) {
			result, err = rewrite.Texts(ctx, l, before, uses)
			reread.Add(result.Changes)
			return result, err
		},
	} {
		if err := add(step(l, all.Changes)); err != nil {
			return nil, err
		}
	}
	checkUnread(l, all)
	if err := mentions(ctx, uses, reread, all); err != nil {
		return nil, err
	}
	checkLinks(l, all)
	return all, nil
}

// mentions reports what names the old version and is not changed. reread are files in which some of it has changed:
// those that refer to webhooks which are served under another path, and texts.
func mentions(ctx context.Context, uses *mention.Reader, reread changeset.Set, all *edits) error {
	found, err := uses.Mentions(ctx, reread)
	if err != nil {
		return err
	}
	strings, finalizers := uses.Strings()
	all.finalizers = finalizers
	all.Findings = slices.Concat(all.Findings, uses.UsesInOldPackage(), found, strings)
	return nil
}

// checkComments refuses files that cannot be edited, since their comments are not where they seem to be.
func checkComments(p *project.Project, old *project.Version) error {
	for _, pkg := range p.Packages {
		for _, file := range pkg.Files {
			if concerned := pkg == old.Package || source.Imports(file.Syntax, old.Package.Path); concerned &&
				!file.Generated && source.ShiftsComments(file.Source, file.Syntax) {
				return hint.Errorf("dos2unix "+shell.Quote(file.Path),
					"%s has CRLF line endings in a comment /* … */, which cannot be edited: convert it to LF",
					file.Path)
			}
		}
	}
	return nil
}

// checkUnread reports what could not be read with types, and packages that are there already.
func checkUnread(l *layout.Layout, all *edits) {
	for _, file := range l.Project.Ignored {
		all.Note(file, "skipped: build constraints exclude it, or it uses cgo")
	}
	for _, dir := range l.Dirs() {
		if dir == l.Dir(layout.OldPackage) || slices.ContainsFunc(layout.Destinations(), func(h layout.Home) bool {
			return l.Dir(h) == dir && l.Exists(h) // which has been looked through for what is added
		}) {
			continue
		}
		if i := slices.IndexFunc(l.Project.Packages, func(p *project.Package) bool { return p.Dir == dir }); i >= 0 &&
			all.creates(dir) {
			all.Block(dir, "a package is there already, and declares no kind of %s. Remove it, and the plan creates the version; "+
				"if it is something else, move it to another folder first", l.Request.To)
		}
	}
}

func (e *edits) creates(dir string) bool {
	for file := range e.Changes {
		if path.Dir(file) == dir {
			return true
		}
	}
	return false
}
