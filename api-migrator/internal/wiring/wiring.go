// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package wiring makes an API server call the conversion of a kind, in projects that kubebuilder has scaffolded
// (PROJECT of version 2, and of version 3 with the plugins go/v3 and go/v4): spec.conversion of the CRD, the annotation
// for its CA, the registration of the webhook, and the call of it in the manager's program.
//
// It decides, and writes nothing. Every part is added where that layout has it, and only if it is missing, so that a
// second run adds nothing. What it cannot add is a finding that says what to do; it never changes a line that it does
// not understand.
package wiring

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Request says whose conversion is to be called.
type Request struct {
	Kind string
	// Hub is the version that the others are converted to and from; Versions are all of them.
	Hub      *project.Version
	Versions []*project.Version
	// Header stands above new Go files.
	Header string
}

// Change replaces a file, or creates it where Before is nil.
type Change struct {
	File          string
	Before, After []byte
}

// Result is what to write, sorted by file, and what is left to a person.
type Result struct {
	Changes []Change
	finding.Report
}

// Add decides what a project lacks.
func Add(p *project.Project, request Request) (*Result, error) {
	w := &wiring{Request: request, project: p, changes: map[string]*Change{}}
	known, err := w.readScaffold()
	if err == nil && !known {
		w.Note("", "the project is not one of kubebuilder's, so only you know where this belongs: set spec.conversion of the "+
			"CRD of %s to strategy Webhook, with the path /convert and a CA bundle; add every version to the manager's "+
			"scheme; call ctrl.NewWebhookManagedBy for %s of %s before the manager starts", w.Kind, w.Kind, w.Hub.Name())
		return &Result{Report: w.Report}, nil
	}
	for _, part := range []func() error{w.addConversion, w.addProgram, w.addEntry} {
		if err == nil {
			err = part()
		}
	}
	if err != nil {
		return nil, err
	}
	result := &Result{Report: w.Report}
	for _, file := range slices.Sorted(maps.Keys(w.changes)) {
		if one := w.changes[file]; string(one.Before) != string(one.After) || one.Before == nil {
			result.Changes = append(result.Changes, *one)
		}
	}
	return result, nil
}

// wiring is a result in the making.
type wiring struct {
	Request
	project *project.Project
	finding.Report
	changes map[string]*Change
	// file is the path of PROJECT, and dir its folder; plugin is the version of the plugin that has scaffolded it: 2, 3
	// or 4.
	file, dir  string
	plugin     int
	listsSpoke bool // whether the release of kubebuilder lists the spokes
	multiGroup bool
	domain     string
}

var goPlugin = regexp.MustCompile(`^(?:base\.)?go\.kubebuilder\.io/v([234])(-|$)`)

// readScaffold reports whether kubebuilder has scaffolded the project, with a layout that is known.
func (w *wiring) readScaffold() (bool, error) {
	name, content, err := project.ScaffoldFile(w.project.Workspace, w.Hub.Package.Dir)
	if err != nil || content == nil {
		return false, err
	}
	var file struct {
		Version    string    `yaml:"version"`
		CLI        string    `yaml:"cliVersion"` // releases that write it know spokes; older ones refuse unknown keys
		Domain     string    `yaml:"domain"`
		MultiGroup bool      `yaml:"multigroup"`
		Layout     yaml.Node `yaml:"layout"` // a text, or a list of them
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		return false, hint.Errorf("kubebuilder edit", "%s is not YAML: %v", name, err)
	}
	w.file, w.dir, w.domain, w.multiGroup = name, path.Dir(name), file.Domain, file.MultiGroup
	w.listsSpoke = file.CLI != ""
	for _, node := range append(file.Layout.Content, &file.Layout) {
		if found := goPlugin.FindStringSubmatch(node.Value); found != nil {
			w.plugin = int(found[1][0] - '0')
		}
	}
	if w.plugin == 0 && file.Version == "2" {
		w.plugin = 2
	}
	return w.plugin != 0, nil
}

// addEntry says in PROJECT that the kind has a conversion webhook. kubebuilder reads that when it scaffolds again. It finds
// no entry in a PROJECT of version 2, whose entries have no domain, and which lists no webhooks.
func (w *wiring) addEntry() error {
	text, _, err := w.text(w.file)
	if err != nil {
		return err
	}
	var spokes []string
	for _, v := range w.Versions {
		if v.Version != w.Hub.Version && w.listsSpoke {
			spokes = append(spokes, v.Version)
		}
	}
	with, line, err := artifacts.WithConversion([]byte(text), w.Kind, w.Hub.Group, w.Hub.Version, spokes)
	switch {
	case err != nil:
		return hint.Errorf("kubebuilder edit", "read %s: %v", w.file, err)
	case line > 0:
		w.Note(fmt.Sprintf("%s:%d", w.file, line), "does not list the conversion webhook of %s: add conversion: true to its "+
			"webhooks", w.Kind)
	case with != nil:
		return w.set(w.file, string(with))
	}
	return nil
}

// group is the short name of the kind's group, as PROJECT has it.
func (w *wiring) group() string {
	if label, ok := strings.CutSuffix(w.Hub.Group, "."+w.domain); ok && w.domain != "" {
		return label
	}
	label, _, _ := strings.Cut(w.Hub.Group, ".")
	return label
}

// text is a file as the changes so far leave it; false if there is none.
func (w *wiring) text(name string) (string, bool, error) {
	if change := w.changes[name]; change != nil {
		return string(change.After), true, nil
	}
	content, err := tree.ReadIfThere(w.project.Root, name)
	return string(content), content != nil, err
}

func (w *wiring) set(name, text string) error {
	change := w.changes[name]
	if change == nil {
		before, err := tree.ReadIfThere(w.project.Root, name)
		if err != nil {
			return err
		}
		change = &Change{File: name, Before: before}
		w.changes[name] = change
	}
	change.After = []byte(text)
	return nil
}

// create adds a patch that sets something. A file of that name that exists stays as it is.
func (w *wiring) create(name, text, sets string) error {
	was, isThere, err := w.text(name)
	if err != nil {
		return err
	}
	if isThere {
		if was != text {
			w.Note(name, "exists, and does not set %s: add that to it", sets)
		}
		return nil
	}
	return w.set(name, text)
}
