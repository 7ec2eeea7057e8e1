// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package stages makes the plan by which clusters follow a CRD from one version to another: in stages, each of
// which can be taken back, and each with a gate.
//
// It owns their order, the manifest of each, and the commands: what is done, what says that the next stage may begin,
// and what takes the stage back. It never reads or writes a file, and never asks a cluster.
//
// It holds that
//   - every manifest is one that the API server's own validation takes, in the place of the one before it;
//   - a gate writes nothing, and a gate that cannot ask the cluster does not open.
package stages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Change is a CRD, and the versions between which clusters follow it.
type Change struct {
	// File names the manifest for users.
	File string
	// CRD is the text of one CustomResourceDefinition, which has From, and may have To.
	CRD      string
	From, To string
	// SingleRelease: the new version is added and stored in one stage.
	SingleRelease bool
}

// Plan is the stages of one CRD, in their order.
type Plan struct {
	CRD      string   `json:"definition"`
	From     string   `json:"from"`
	To       string   `json:"to"`
	Warnings []string `json:"warnings"`
	Stages   []Stage  `json:"stages"`
}

// Stage is one of them.
type Stage struct {
	// Letter is A to F, the same for the same stage in every plan.
	Letter string `json:"letter"`
	Name   string `json:"name"`
	What   string `json:"what"`
	// Wait says what no command can find out, and must hold before the stage begins; empty for the first.
	Wait string `json:"wait,omitempty"`
	// Manifest is the CRD that the stage ships; empty if it stays that of the stage before.
	Manifest string `json:"manifest,omitempty"`
	// Commands carry the stage out, in the folder of the manifests.
	Commands []string `json:"commands"`
	// Gate exits with 0 once the next stage may begin.
	Gate string `json:"gate"`
	// Back says how the stage is taken back.
	Back string `json:"back"`
}

// File is the name of the stage's manifest.
func (s *Stage) File() string { return strings.ToLower(s.Letter) + "-" + s.Name + ".yaml" }

// GateFile is the name of the script that is the gate.
func (s *Stage) GateFile() string { return strings.ToLower(s.Letter) + "-gate.sh" }

// Make makes the plan.
func Make(ctx context.Context, q Change) (*Plan, error) {
	original, err := crd.Parse(q.File, []byte(q.CRD))
	if err != nil {
		return nil, fmt.Errorf("plan stages: %w", err)
	}
	if err := q.check(original); err != nil {
		return nil, err
	}
	p := &planner{Change: q, crd: original,
		plan: &Plan{CRD: original.Name, From: q.From, To: q.To, Warnings: []string{}}}
	if err := p.manifests(ctx); err != nil {
		return nil, err
	}
	p.warn(ctx)
	p.stages()
	return p.plan, nil
}

// check refuses what cannot be meant.
func (q *Change) check(d *crd.CRD) error {
	try := q.meant(d)
	switch {
	case d.FromCluster():
		const given = ".status, .metadata.resourceVersion, .metadata.uid, .metadata.creationTimestamp, " +
			".metadata.generation, .metadata.managedFields"
		return hint.Errorf(fmt.Sprintf("yq 'del(%s)' %s", given, q.File),
			"%s in %s cannot be shipped: it is the object of a cluster, whose resourceVersion or uid others refuse",
			d.Name, q.File)
	case q.From == q.To:
		return hint.Errorf(try, "%s is to go from %s to %s, which is the same", d.Name, q.From, q.To)
	case !slices.Contains(d.Versions(), q.From):
		return hint.Errorf(try, "%s in %s has no version %s; it has %s", d.Name, q.File, q.From,
			strings.Join(d.Versions(), ", "))
	case !project.IsVersion(q.To):
		return hint.Errorf(try, "%q is no version such as v2", q.To)
	}
	return nil
}

// meant is the command for versions that the CRD has, or may get.
func (q *Change) meant(d *crd.CRD) string {
	from, to, versions := q.From, q.To, d.Versions()
	if stored := d.Storage(); !slices.Contains(versions, from) && stored != "" {
		from = stored
	}
	if to == from || !project.IsVersion(to) {
		to = "v2"
		if others := slices.DeleteFunc(versions, func(version string) bool { return version == from }); len(others) > 0 {
			to = others[0]
		} else if n := 0; from == to {
			_, _ = fmt.Sscanf(from, "v%d", &n)
			to = fmt.Sprintf("v%d", n+1)
		}
	}
	return fmt.Sprintf("api-migrator stages --from %s --to %s %s", from, to, q.File)
}

// planner makes one plan.
type planner struct {
	Change
	crd  *crd.CRD
	plan *Plan
	// add, store, unserve and remove are the CRDs as the stages ship them.
	add, store, unserve, remove *shipped
}

// shipped is the CRD of a stage.
type shipped struct {
	text string
	crd  *crd.CRD
}

// manifests makes the CRDs, each from the one before, and has the API server's validation judge them in their
// order.
func (p *planner) manifests(ctx context.Context) error {
	has := slices.Contains(p.crd.Versions(), p.To)
	add := crd.Options{AddVersion: p.To, CopyOf: p.From, KeepStorage: true}
	if has {
		add = crd.Options{Serve: p.To}
		if p.crd.Storage() == p.To {
			add.Storage = p.From
		}
	}
	last := &shipped{p.Change.CRD, p.crd}
	for _, step := range []struct {
		letter  string
		into    **shipped
		options crd.Options
	}{
		{"A", &p.add, add},
		{"B", &p.store, crd.Options{Storage: p.To}},
		{"E", &p.unserve, crd.Options{Unserve: p.From}},
		{"F", &p.remove, crd.Options{Remove: p.From}},
	} {
		upgraded, err := crd.Upgrade(ctx, p.File, last.text, step.options)
		if err != nil {
			return fmt.Errorf("plan stage %s of %s: %w", step.letter, p.crd.Name, err)
		}
		next := &shipped{upgraded.Text, upgraded.CRDs[0]}
		if step.into == &p.add {
			for _, note := range upgraded.Notes { // a plan is about one CRD
				p.plan.Warnings = append(p.plan.Warnings, strings.TrimPrefix(note, p.plan.CRD+": "))
			}
		}
		// What is stored by the time that a version is removed, no manifest says: retire finds out.
		if problems := next.crd.UpdateProblems(ctx, last.crd); len(problems) > 0 &&
			step.into != &p.remove {
			return fmt.Errorf("plan stage %s of %s: %w", step.letter, p.crd.Name,
				&crd.RefusedError{From: p.File, Problems: problems})
		}
		*step.into, last = next, next
	}
	return nil
}

func (p *planner) warn(ctx context.Context) {
	if p.SingleRelease {
		p.plan.Warnings = append(p.plan.Warnings,
			fmt.Sprintf("in a single release no one can go back to the release before: once an object is stored in "+
				"%s, an API server refuses a CRD without it", p.To))
	}
	if p.crd.Converts() {
		p.plan.Warnings = append(p.plan.Warnings,
			fmt.Sprintf("a webhook converts between the versions: it must know %s before stage A, and %s until stage "+
				"F is done", p.To, p.From))
		return
	}
	comparisons, err := crd.Check(ctx, nil, []*crd.CRD{p.store.crd})
	if err != nil || len(comparisons) != 1 {
		return // what has just been accepted is compared with nothing
	}
	for _, reason := range comparisons[0].Lossless.Reasons {
		if comparisons[0].Lossless.Verdict == crd.No {
			p.plan.Warnings = append(p.plan.Warnings, "conversion strategy None loses data: "+reason)
		}
	}
}
