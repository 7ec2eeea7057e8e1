// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package convert writes the conversion between the versions of a kind, as far as it is mechanical: the hub, the spokes
// with controller-runtime's ConvertTo and ConvertFrom, and for each spoke a test that sends random objects there and
// back.
//
// What is not mechanical it lists, in its plan and as a TODO in the code; it never guesses a conversion and never
// leaves a field out silently. What a person has written stays: it creates files that are missing, and adds what
// package wiring finds missing in kubebuilder's. Invariants: the same tree and request give the same plan; what is
// written has been type-checked before, with the whole project; an error writes nothing. A plan can be made without the
// libraries that its files import.
package convert

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/wiring"
)

// Request says what to convert.
type Request struct {
	Kind string
	// Hub is the GROUP/VERSION that the others are converted to and from; empty is the storage version.
	Hub string
	// Preserve keeps in an annotation what the other version cannot express.
	Preserve bool
}

// command is how to ask for it.
func (r Request) command() string {
	command := "api-migrator convert scaffold --kind " + r.Kind
	if r.Hub != "" {
		command += " --hub " + r.Hub
	}
	if !r.Preserve {
		command += " --preserve=false"
	}
	return command
}

// Plan is what there is to convert, and the files that are to be written.
type Plan struct {
	Kind  string `json:"kind"`
	Group string `json:"group"`
	Hub   string `json:"hub"` // a version, without the group
	// Spokes are the other versions, sorted by name.
	Spokes []Spoke `json:"spokes"`
	// Files are those that will be created or changed, sorted by path.
	Files []File `json:"files"`
	// Findings are what a person has to do until an API server calls the conversion.
	Findings []finding.Finding `json:"findings,omitempty"`
	// Tests are the commands that run the tests, after one that vendors what the new files import, where that is usual.
	Tests []string `json:"tests"`
	// Missing says which package the files import that the module cannot: they have not been type-checked, and Write
	// refuses. nil if there is none.
	Missing *hint.Error `json:"-"`
	root    string
}

// File is one that is created, or changed.
type File struct {
	Path    string `json:"path"`
	Changed bool   `json:"changed,omitempty"`
	Content string `json:"-"`
	before  string // of one that is changed
}

// Make decides for the project in dir. It writes nothing. Where the code would not compile, the plan comes with the
// error, to be looked at. A library that is missing is no error here (Plan.Missing).
func Make(ctx context.Context, dir string, request Request) (*Plan, error) {
	p, err := project.Load(ctx, dir)
	if err == nil {
		err = p.Compiles()
	}
	if err != nil {
		return nil, err
	}
	hub, spokes, err := choose(p, request)
	if err != nil {
		return nil, err
	}
	libraries, missing, err := findLibraries(ctx, p.Workspace, hub.Package.Dir)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Kind: request.Kind, Group: hub.Group, Hub: hub.Version, Spokes: []Spoke{}, Files: []File{},
		Tests: []string{}, Missing: missing, root: p.Root}
	s := &scaffold{project: p, request: request, hub: hub, versions: append([]*project.Version{hub}, spokes...),
		libraries: libraries, plan: plan}
	if err := s.addHub(); err != nil {
		return nil, err
	}
	for _, spoke := range spokes {
		if err := s.addSpoke(spoke); err != nil {
			return nil, err
		}
	}
	if err := s.addWiring(); err != nil {
		return nil, err
	}
	slices.SortFunc(plan.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	if len(plan.Files) == 0 {
		plan.Missing = nil
		return plan, nil
	}
	if p.Workspace.Vendored(p.Workspace.ModuleOf(hub.Package.Dir)) {
		plan.Tests = append([]string{goCommand(p.Workspace, hub.Package.Dir) + " mod vendor"}, plan.Tests...)
	}
	if plan.Missing == nil {
		err = s.typeCheck(ctx)
	}
	return plan, err
}

// scaffold is a plan in the making.
type scaffold struct {
	project   *project.Project
	request   Request
	hub       *project.Version
	versions  []*project.Version
	libraries libraries
	plan      *Plan
}

func (s *scaffold) add(name string, content []byte) {
	s.plan.Files = append(s.plan.Files, File{Path: name, Content: string(content)})
}

// addWiring has an API server call the conversion, which kinds with the same fields in all versions do not need.
func (s *scaffold) addWiring() error {
	if !slices.ContainsFunc(s.plan.Spokes, func(spoke Spoke) bool { return !spoke.Same }) {
		return nil
	}
	from, _ := s.siblings(s.hub)
	licence, err := header(from)
	if err != nil {
		return err
	}
	result, err := wiring.Add(s.project, wiring.Request{
		Kind: s.request.Kind, Hub: s.hub, Versions: s.versions, Header: licence,
	})
	if err != nil {
		return fmt.Errorf("wire conversion of %s: %w", s.request.Kind, err)
	}
	for _, change := range result.Changes {
		s.plan.Files = append(s.plan.Files, File{Path: change.File, Changed: change.Before != nil,
			Content: string(change.After), before: string(change.Before)})
	}
	s.plan.Findings = result.Findings
	return nil
}

// typeCheck is an error where the project does not compile with the plan's files.
func (s *scaffold) typeCheck(ctx context.Context) error {
	files := map[string][]byte{}
	for _, file := range s.plan.Files {
		files[file.Path] = []byte(file.Content)
	}
	with, err := project.LoadWith(ctx, s.project.Workspace, files)
	if err == nil {
		err = with.Compiles()
	}
	if known := (*hint.Error)(nil); errors.As(err, &known) {
		return hint.Errorf(s.request.command()+" --diff", "with the conversion of %s added, %s", s.request.Kind,
			known.Error())
	}
	return err
}

// addHub gives the hub its method, if it lacks it.
func (s *scaffold) addHub() error {
	if s.hub.HasMethod(s.request.Kind, "Hub") {
		return nil
	}
	from, name := s.siblings(s.hub)
	if err := s.mustBeFree(name + ".go"); err != nil {
		return err
	}
	licence, err := header(from)
	if err != nil {
		return err
	}
	body := fmt.Sprintf("// Hub marks %s as the version that the others are converted to and from.\nfunc (*%s) Hub() {}\n", s.hub.Version, s.request.Kind)
	content, err := source(licence, s.hub.Package.Name, nil, body)
	if err != nil {
		return err
	}
	s.add(name+".go", content)
	return nil
}

// siblings is the file that declares the kind in a version, and the name, without its end, of those for conversion.
func (s *scaffold) siblings(version *project.Version) (*project.File, string) {
	kind, _ := version.Kind(s.request.Kind)
	at := slices.IndexFunc(version.Package.Files, func(f *project.File) bool { return f.Path == kind.File })
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(kind.File), ".go"), "_types")
	// several kinds in a file
	if !strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(base), s.request.Kind) {
		base = strings.ToLower(s.request.Kind)
	}
	return version.Package.Files[at], path.Join(version.Package.Dir, base+"_conversion")
}

// mustBeFree refuses to overwrite a file that exists.
func (s *scaffold) mustBeFree(name string) error {
	there, err := exists(s.project.Root, name)
	if err == nil && there {
		err = hint.Errorf("git mv "+name+" "+strings.TrimSuffix(name, "_conversion.go")+"_convert.go",
			"%s exists and has no complete conversion of %s: nothing is written over it", name, s.request.Kind)
	}
	return err
}
