// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package move carries out, on the sources of a project, what it takes to move kinds to a new API version or another
// group, and to give one another name: it makes the plan, computes every edit in a copy of the tree, type-checks the
// copy, and writes the result.
//
// It never edits generated code by hand, never touches a cluster, and writes into the project in Apply and
// ApplyInCommits only. Invariants: the same tree and request give the same plan, byte for byte; a plan with blockers is
// not applied; what Apply writes has compiled before; every comment of the sources is there afterwards; no plan claims
// a conversion from one CustomResourceDefinition to another: it holds the steps of a copy.
package move

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/hint"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/transaction"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// Plan is what will be done, for a person to review.
type Plan struct {
	Format  string  `yaml:"format"`
	Request Request `yaml:"request"`
	// Tree is a hash of the files that the plan was made for: the Go code, and what else it edits.
	Tree         string        `yaml:"tree"`
	Blockers     []Finding     `yaml:"blockers"`
	Findings     []Finding     `yaml:"findings"`
	Declarations []Declaration `yaml:"declarations"`
	Edits        []Edit        `yaml:"edits"`
	// Copy is how objects get from the old definition to the new one, where a cluster cannot convert them.
	Copy *Copy `yaml:"copy,omitempty"`
	// Commands generate what is not regenerated here.
	Commands []string `yaml:"commands"`
}

// Format is the version of the plan's form.
const Format = "api-migrator/v1"

// Finding is something that a person should look at.
type Finding struct {
	Place string `yaml:"place"`
	Text  string `yaml:"text"`
}

// String is the finding for a person.
func (f Finding) String() string { return strings.TrimPrefix(f.Place+": "+f.Text, ": ") }

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

// Outcome is a plan with the contents that its edits stand for. A nil content is a file that is not there.
type Outcome struct {
	Plan          *Plan
	Root          string
	Before, After map[string][]byte
	steps         map[string]stepKind // by file
}

// Make plans a request for the project in dir. It writes nothing there.
func Make(ctx context.Context, dir string, request Request) (*Outcome, error) {
	request = request.withDefaults()
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
	old, err := request.check(p)
	if err != nil {
		return nil, err
	}
	s, err := newSurgery(p, old, request)
	if err != nil {
		return nil, err
	}
	if err := s.checkComments(); err != nil {
		return nil, err
	}
	s.bindToVersion()
	s.keepUnexported()
	s.hideUnexported()
	s.exportNames()
	s.nameCopies()
	s.checkBorders()
	manifests := func() error { return s.editManifests(ctx) }
	for _, step := range []func() error{s.createPackages, s.editOld, s.followTests, s.editImporters,
		s.editOtherVersions, s.createGroupFile, s.editMarkers, s.editProjectFile, manifests, s.reportRemoval} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.lookAround()
	s.reportUsesInOldPackage()
	if err := s.mentions(ctx); err != nil {
		return nil, err
	}
	s.reportStrings()
	s.blockLinks()
	outcome := &Outcome{Root: p.Root, Before: map[string][]byte{}, After: map[string][]byte{},
		steps: map[string]stepKind{}}
	if len(s.blockers) == 0 {
		if err := s.tryInCopy(ctx); err != nil {
			return nil, err
		}
	}
	outcome.Plan = s.plan()
	if err := s.fill(outcome); err != nil {
		return nil, err
	}
	outcome.Plan.Tree = s.treeHash(outcome)
	return outcome, nil
}

func newSurgery(p *project.Project, old *project.Version, request Request) (*surgery, error) {
	group, version, _ := strings.Cut(request.To, "/")
	dirs, err := request.folders(p, old)
	if err != nil {
		return nil, err
	}
	s := &surgery{
		request: request, project: p, old: old, group: group, version: version, graph: split.NewGraph(old.Package),
		placed: map[*split.Declaration]split.Placement{}, renamed: map[*split.Declaration]string{},
		kept: map[*split.Declaration]bool{}, bound: map[*split.Declaration]bool{},
		hidden: map[*split.Declaration]bool{}, wholly: map[*project.File]bool{}, files: map[string]*change{},
		dirs: dirs, renaming: renamingOf(request, old), copies: map[string]string{},
		telling: map[*split.Declaration]bool{},
	}
	if err := s.checkDeclared(); err != nil {
		return nil, err
	}
	if err := s.nameSuccessors(); err != nil {
		return nil, err
	}
	for _, file := range old.Package.Files {
		s.legacy = s.legacy || !file.Generated && bytes.Contains(file.Source, []byte("+k8s:deepcopy-gen"))
	}
	return s, s.place()
}

// checkDeclared refuses kinds whose code people do not write.
func (s *surgery) checkDeclared() error {
	for _, name := range s.request.Kinds {
		if kind, _ := s.old.Kind(name); !slices.ContainsFunc(s.graph.Declarations, func(d *split.Declaration) bool { return d.What == "type" && d.Name == name }) {
			return hint.Errorf(tryInspect, "%s is declared in %s, which is generated: its generator has to make "+
				"the new version", name, kind.File)
		}
	}
	return nil
}

// place decides where each declaration goes.
func (s *surgery) place() error {
	question := split.Question{Graph: s.graph, Assign: s.request.Assign}
	if s.request.Shared == SharedNewest { // where every version can use it
		question.Idle = split.Shared
	}
	if s.inPlace() {
		question.NamedAfter = s.renaming.names
	}
	for _, kind := range s.old.Kinds {
		if slices.Contains(s.request.Kinds, kind.Name) {
			question.Moving = append(question.Moving, kind)
		} else {
			question.Staying = append(question.Staying, kind)
		}
	}
	for _, pkg := range s.project.Packages {
		for _, file := range pkg.Files {
			if pkg != s.old.Package && source.ImportSpec(file.Syntax, s.old.Package.Path) != nil {
				used := map[*split.Declaration]bool{}
				for ident, object := range file.Info.Uses {
					if d := s.graph.Owner(object); d != nil && s.in(file, ident) {
						used[d] = true
					}
				}
				question.Users = append(question.Users, used)
			}
		}
	}
	placements, err := question.Decide()
	if err != nil {
		return hint.Errorf(tryInspect, "%s", err.Error())
	}
	for _, placement := range placements {
		s.placed[placement.Declaration] = placement
		if placement.Guess {
			what := map[split.Destination]string{split.Stay: "stays", split.Shared: "is shared"}[placement.Destination]
			s.finding(s.project.Place(placement.Pos()), "%s %s, as a guess: %s", placement.Name, what, placement.Reason)
		}
	}
	return nil
}

// checkComments refuses files that cannot be edited, since their comments are not where they seem to be.
func (s *surgery) checkComments() error {
	for _, pkg := range s.project.Packages {
		for _, file := range pkg.Files {
			if concerned := pkg == s.old.Package || source.ImportSpec(file.Syntax, s.old.Package.Path) != nil; concerned &&
				!file.Generated && source.ShiftsComments(file.Source, file.Syntax) {
				return hint.Errorf("dos2unix "+hint.Quote(file.Path),
					"%s has line ends of Windows in a comment /* … */, which cannot be edited: give it line ends of Unix", file.Path)
			}
		}
	}
	return nil
}

// lookAround reports what could not be read with types.
func (s *surgery) lookAround() {
	for _, file := range s.project.Ignored {
		s.finding(file, "kept out by build constraints, or written for cgo: not looked at")
	}
	for _, dir := range s.dirs {
		if dir == s.dirs[homeOld] {
			continue
		}
		if i := slices.IndexFunc(s.project.Packages, func(p *project.Package) bool { return p.Dir == dir }); i >= 0 &&
			s.creates(dir) {
			s.blocker(dir, "the package exists already")
		}
	}
}

func (s *surgery) creates(dir string) bool {
	for file := range s.files {
		if path.Dir(file) == dir {
			return true
		}
	}
	return false
}

func (s *surgery) plan() *Plan {
	commands := s.commands() // it has findings, too
	plan := &Plan{Format: Format, Request: s.request, Blockers: s.blockers, Findings: s.findings,
		Declarations: []Declaration{}, Edits: []Edit{}, Commands: commands, Copy: s.copyPlan()}
	plan.Blockers, plan.Findings = distinct(plan.Blockers), distinct(plan.Findings)
	for _, d := range s.graph.Declarations {
		placement := s.placed[d]
		at := s.homeOf(d, elsewhere)
		plan.Declarations = append(plan.Declarations, Declaration{
			Name: strings.Join(d.Names, ", "), What: d.What, File: d.File().Path,
			To: string(placement.Destination), In: s.dirs[at],
			As: s.asOf(d), Reason: placement.Reason,
		})
	}
	return plan
}

// asOf is what a declaration is called where it goes, if that is another name.
func (s *surgery) asOf(d *split.Declaration) string {
	names := make([]string, 0, len(d.Names))
	for _, name := range d.Names {
		names = append(names, s.nameOf(d, name, elsewhere))
	}
	if slices.Equal(names, d.Names) {
		return ""
	}
	return strings.Join(names, ", ")
}

// distinct sorts findings and drops repetitions. An empty list is a list too: a plan is the same when it is read again.
func distinct(list []Finding) []Finding {
	sorted := append([]Finding{}, list...)
	slices.SortFunc(sorted, func(a, b Finding) int { return strings.Compare(a.Place+a.Text, b.Place+b.Text) })
	return slices.Compact(sorted)
}

// fill turns the changes into the plan's edits.
func (s *surgery) fill(outcome *Outcome) error {
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		before, err := tree.ReadIfThere(s.project.Root, name)
		if err != nil {
			return err
		}
		change := s.files[name]
		if bytes.Equal(before, change.content) {
			continue
		}
		edit := Edit{File: name, Action: "change", Why: change.why, Before: transaction.Hash(before), After: transaction.Hash(change.content)}
		switch {
		case before == nil:
			edit.Action = "create"
		case change.content == nil:
			edit.Action = "remove"
		}
		outcome.Plan.Edits = append(outcome.Plan.Edits, edit)
		outcome.Before[name], outcome.After[name] = before, change.content
		outcome.steps[name] = s.stepOf(name)
	}
	s.joinSteps(outcome.steps)
	return nil
}

// treeHash covers every Go file that was read, and what else is edited: manifests, PROJECT, what refers to renamed
// files.
func (s *surgery) treeHash(outcome *Outcome) string {
	hashes := map[string]string{}
	for name, content := range outcome.Before {
		hashes[name] = transaction.Hash(content)
	}
	for _, pkg := range s.project.Packages {
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
