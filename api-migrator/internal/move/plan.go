// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package move carries out, on the sources of a project, what it takes to move kinds to a new API version or another
// group, and to give one another name. Make turns a request into a plan and an outcome in five stages: gather reads the
// project, decide chooses where everything goes, edit computes what becomes of each file, newCopy makes the edits in a
// copy of the tree and generates code there, and compile type-checks the copy. Apply computes the plan again and writes the
// outcome.
//
// It never touches a cluster, and writes into the project in Apply and ApplyInCommits only. Invariants: the same tree
// and request give the same plan, byte for byte; a plan with blockers is not applied; what Apply writes has compiled
// before; no plan claims a conversion from one CustomResourceDefinition to another: it holds the steps of a copy.
package move

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/transaction"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Plan is what will be done, for users to review.
type Plan struct {
	Format  string          `yaml:"format"`
	Request request.Request `yaml:"request"`
	// Tree is a hash of the files that the plan was made for: the Go code, and what else it edits.
	Tree string `yaml:"tree"`
	// OnlyImporters: the new version has the kinds already, and the importers of the old one follow.
	OnlyImporters bool              `yaml:"onlyImporters,omitempty"`
	Blockers      []finding.Finding `yaml:"blockers"`
	Findings      []finding.Finding `yaml:"findings"`
	Declarations  []Declaration     `yaml:"declarations"`
	Edits         []Edit            `yaml:"edits"`
	// Copy is how objects get from the old CRD to the new one, where a cluster cannot convert them.
	Copy *artifacts.Copy `yaml:"copy,omitempty"`
	// Commands generate what is not regenerated here.
	Commands []string `yaml:"commands"`
}

// Format is the version of the plan's form.
const Format = "api-migrator/v1"

// Declaration says where one declaration goes and why.
type Declaration struct {
	Name   string `yaml:"name"`
	What   string `yaml:"what"`
	File   string `yaml:"file"`
	To     string `yaml:"to"`           // new, shared, stay or anchor
	In     string `yaml:"in"`           // the folder
	As     string `yaml:"as,omitempty"` // its name there, if it is another
	Reason string `yaml:"reason"`
}

// Edit is what becomes of one file.
type Edit struct {
	File   string `yaml:"file"`
	Action string `yaml:"action"` // create, change or remove
	Why    string `yaml:"why"`
	Before string `yaml:"before,omitempty"` // SHA-256 of the content
	After  string `yaml:"after,omitempty"`
}

// newPlan is the plan for a layout, before its edits.
func newPlan(l *layout.Layout, edits *edits) *Plan {
	commands, report := artifacts.Commands(l, edits.Changes)
	edits.Add(report)
	plan := &Plan{Format: Format, Request: l.Request, Blockers: finding.Distinct(edits.Blockers),
		Findings: finding.Distinct(edits.Findings), Declarations: []Declaration{}, Edits: []Edit{}, Commands: commands,
		Copy: artifacts.NewCopy(l, edits.finalizers, edits.created), OnlyImporters: l.MovesOnlyImporters()}
	for _, d := range l.Graph.Declarations {
		placement := l.PlacementOf(d)
		plan.Declarations = append(plan.Declarations, Declaration{
			Name: strings.Join(d.Names, ", "), What: d.What, File: d.File().Path,
			To: string(placement.Destination), In: l.Dir(l.HomeOf(d, layout.Importer)),
			As: l.AsOf(d), Reason: placement.Reason,
		})
	}
	return plan
}

// fill turns the changes into the plan's edits, and takes the contents.
func (o *Outcome) fill(l *layout.Layout, changes changeset.Set) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		before, err := tree.ReadIfThere(o.Root, name)
		if err != nil {
			return err
		}
		change := changes[name]
		if bytes.Equal(before, change.Content) {
			continue
		}
		edit := Edit{File: name, Action: "change", Why: change.Why, Before: transaction.Hash(before),
			After: transaction.Hash(change.Content)}
		switch {
		case before == nil:
			edit.Action = "create"
		case change.Content == nil:
			edit.Action = "remove"
		}
		o.Plan.Edits = append(o.Plan.Edits, edit)
		o.Before[name], o.After[name] = before, change.Content
		o.steps[name] = stepOf(l, name)
	}
	joinSteps(l.Request, changes, o.steps)
	return nil
}

// treeHash covers every Go file that was read, and what else is edited: manifests, PROJECT, what refers to renamed
// files.
func (o *Outcome) treeHash(p *project.Project) string {
	hashes := map[string]string{}
	for name, content := range o.Before {
		hashes[name] = transaction.Hash(content)
	}
	for _, pkg := range p.Packages {
		for _, file := range pkg.Files {
			hashes[file.Path] = transaction.Hash(file.Source)
		}
	}
	all := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(all, "%s %s\n", name, hashes[name])
	}
	return hex.EncodeToString(all.Sum(nil))
}

// Encode writes a plan as YAML.
func (p *Plan) Encode() ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(p); err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads a plan. What it does not know it refuses.
func Decode(content []byte) (*Plan, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	plan := &Plan{}
	if err := decoder.Decode(plan); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if plan.Format != Format {
		return nil, fmt.Errorf("decode plan: its format is %q, not %s", plan.Format, Format)
	}
	return plan, nil
}
