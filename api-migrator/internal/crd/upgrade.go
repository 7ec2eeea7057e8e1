// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// Options say what Upgrade does next to.
type Options struct {
	// Only selects the CRDs to upgrade; others stay as they are, byte for byte. Default: all.
	Only func(group, kind string) bool
	// AddVersion is a version that the CRD gets besides those that it has, as a copy of CopyOf. Default: none.
	AddVersion string
	// CopyOf is a version of the CRD. Default: the one that is stored.
	CopyOf string
	// Schemas are those of AddVersion, by kind. Default: the schema of CopyOf.
	Schemas map[string]*apiextensionsv1.JSONSchemaProps
	// Storage is the version that objects are stored in. Default: AddVersion, or as before where KeepStorage is set.
	Storage string
	// Serve, Unserve and Remove are a version that is served, one that is not any more, and one that is not there any
	// more. Default: none.
	Serve, Unserve, Remove string
	// KeepStorage: objects are stored in the version that they were stored in before. Default: they are stored in
	// AddVersion.
	KeepStorage bool
}

// Upgraded is what Upgrade returns.
type Upgraded struct {
	// Text is the whole file.
	Text string
	// CRDs are those in the file, as they are in Text.
	CRDs []*CRD
	// Alone: the file has one CRD and nothing else, so it can have its canonical name.
	Alone bool
	// Notes are changes in what the CRDs mean, for users.
	Notes []string
}

// RefusedError is the error of Upgrade where an API server would not take the outcome.
type RefusedError struct {
	From     string
	Problems []string
}

func (e *RefusedError) Error() string {
	more := ""
	if n := len(e.Problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("upgrade %s: the API server would not take the outcome: %s%s", e.From, e.Problems[0], more)
}

// Upgrade brings every CustomResourceDefinition of a file into apiextensions.k8s.io/v1, also those in lists and in JSON.
// Other objects stay as they are. With a RefusedError the outcome is returned too, so that it can be looked at.
func Upgrade(ctx context.Context, from, file string, options Options) (*Upgraded, error) {
	outcome := &Upgraded{}
	u := &upgrade{from: from, options: options, outcome: outcome, several: len(kindLines.FindAllString(file, 2)) > 1}
	var text strings.Builder
	documents := 0
	for _, part := range split(file) {
		if !isContent(part) {
			text.WriteString(part)
			continue
		}
		documents++
		upgraded, err := u.part(part)
		if err != nil {
			return nil, err
		}
		text.WriteString(upgraded)
	}
	var refused *RefusedError
	for _, crd := range outcome.CRDs {
		problems := append(crd.CreateProblems(ctx), crd.dropped()...)
		if len(problems) > 0 && refused == nil {
			refused = &RefusedError{From: u.named(crd.Name), Problems: problems}
		}
	}
	outcome.Text, outcome.Alone = text.String(), documents == 1 && len(outcome.CRDs) == 1 && !u.enclosed
	switch {
	case len(outcome.CRDs) == 0:
		return nil, fmt.Errorf("upgrade %s: it has no %s", from, Kind)
	case refused != nil:
		return outcome, refused
	}
	return outcome, nil
}

// upgrade is that of one file.
type upgrade struct {
	from    string
	options Options
	outcome *Upgraded
	// enclosed: a CRD is in a list or in JSON, so its file is not called after it.
	enclosed bool
	// several: the file has more than one CRD, so errors name the one that they are about.
	several bool
}

// kindLines are the lines that say that an object is a CustomResourceDefinition.
var kindLines = regexp.MustCompile(`(?m)"?\bkind"?:\s*["']?` + Kind + `["']?,?\s*$`)

// named is what errors about a CRD are about: the file, with the CRD's name where it has several.
func (u *upgrade) named(name string) string {
	if !u.several || name == "" {
		return u.from
	}
	return u.from + " (" + name + ")"
}

// part upgrades one document.
func (u *upgrade) part(part string) (string, error) {
	var typed struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
	}
	if err := yaml.Unmarshal([]byte(part), &typed); err != nil {
		return "", unreadable(u.from, part, fmt.Errorf("read %s: %w", u.from, err))
	}
	switch isList := strings.HasSuffix(typed.Kind, "List"); {
	case !isList && (typed.Kind != Kind || !strings.HasPrefix(typed.APIVersion, apiGroup+"/")):
		return part, nil
	case isJSON(part):
		return u.json(part)
	case isList:
		return u.list(part)
	}
	return u.object(part)
}

// object upgrades one CRD.
func (u *upgrade) object(text string) (string, error) {
	if err := ends(u.from, text); err != nil {
		return "", err
	}
	crlf := strings.Contains(text, "\r\n")
	d, err := newDocument(strings.ReplaceAll(text, "\r\n", "\n"))
	if err != nil {
		return "", unreadable(u.from, text, fmt.Errorf("read %s: %w", u.from, err))
	}
	from := u.named(valueOf(d.root, "metadata", "name"))
	if u.options.Only != nil && !u.options.Only(valueOf(d.root, "spec", "group"),
		valueOf(d.root, "spec", "names", "kind")) {
		return text, nil
	}
	e := &edit{document: d, beta: valueOf(d.root, "apiVersion") == v1beta1.SchemeGroupVersion.String()}
	if err := e.all(u.options); err != nil {
		return "", tangled(from, err)
	}
	crd, err := Parse(u.from, []byte(d.String()))
	if err != nil {
		return "", unreadable(from, text, err)
	}
	u.outcome.CRDs = append(u.outcome.CRDs, crd)
	for _, note := range e.notes {
		u.outcome.Notes = append(u.outcome.Notes, crd.Name+": "+note)
	}
	if crlf {
		return strings.ReplaceAll(d.String(), "\n", "\r\n"), nil
	}
	return d.String(), nil
}

// edit upgrades one CRD. Every step leaves a document that the next one reads again.
type edit struct {
	*document
	// beta: it was written in v1beta1, whose defaults are others.
	beta  bool
	notes []string
}

func (e *edit) note(format string, arguments ...any) {
	e.notes = append(e.notes, fmt.Sprintf(format, arguments...))
}

func (e *edit) spec() *yaml.Node { return lookup(e.root, "spec") }

func (e *edit) all(options Options) error {
	if spec := e.spec(); spec == nil || spec.Kind != yaml.MappingNode {
		return fmt.Errorf("it has no spec")
	}
	steps := []func() error{
		e.columnPaths,
		e.versionList,
		func() error { return e.perVersion("validation", "schema") },
		func() error { return e.perVersion("subresources", "subresources") },
		func() error { return e.perVersion("additionalPrinterColumns", "additionalPrinterColumns") },
		func() error { return e.perVersion("selectableFields", "selectableFields") },
		e.missingSchemas,
		e.missingTypes,
		e.keepUnknownFields,
		e.conversion,
		e.preserveUnknownFields,
		e.scope,
		func() error { return e.addVersion(options) },
		func() error { return e.store(options) },
		func() error { return e.serve(options.Serve, true) },
		func() error { return e.serve(options.Unserve, false) },
		func() error { return e.removeVersion(options.Remove) },
		e.apiVersion,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (e *edit) apiVersion() error {
	if !e.beta {
		return nil
	}
	return e.retoken(lookup(e.root, "apiVersion"), "v1beta1", "v1")
}

// columnPaths gives the fields of printer columns the name that they have in v1.
func (e *edit) columnPaths() error {
	lists := []*yaml.Node{lookup(e.spec(), "additionalPrinterColumns")}
	for _, version := range e.versions() {
		lists = append(lists, lookup(version, "additionalPrinterColumns"))
	}
	var keys []*yaml.Node
	for _, list := range lists {
		if list == nil {
			continue
		}
		for _, column := range list.Content {
			if i := index(column, "JSONPath"); i >= 0 {
				keys = append(keys, column.Content[i])
			}
		}
	}
	for _, key := range keys { // the names are equally long: no place moves
		if err := e.retoken(key, "JSONPath", "jsonPath"); err != nil {
			return err
		}
	}
	return nil
}

// versionList makes spec.version an entry of spec.versions, or takes it away where there are some.
func (e *edit) versionList() error {
	if versions := lookup(e.spec(), "versions"); versions != nil && isEmpty(versions) {
		if err := e.remove(e.spec(), "versions"); err != nil {
			return err
		}
	}
	i := index(e.spec(), "version")
	if i < 0 {
		return nil
	}
	value := e.spec().Content[i+1]
	at, _ := e.entry(e.spec(), "version")
	pad := strings.Repeat(" ", at.indent)
	var kept []string // comments of the line that goes
	for _, line := range e.lines[at.start:at.end] {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			kept = append(kept, line)
		}
	}
	versions := e.versions()
	if len(versions) == 0 {
		name := strings.TrimSpace(e.lines[value.Line-1][value.Column-1:])
		return e.replace(at.start, at.end, append(kept, pad+"versions:", pad+"- name: "+name, pad+"  served: true",
			pad+"  storage: true")...)
	}
	if first := lookup(versions[0], "name"); first != nil && first.Value != value.Value {
		return fmt.Errorf("spec.version is %s, and the first of spec.versions is %s", value.Value, first.Value)
	}
	if value.LineComment != "" {
		kept = append(kept, pad+value.LineComment)
	}
	return e.replace(at.start, at.end, kept...)
}

// remove takes an entry out of a mapping, with its comments.
func (e *edit) remove(mapping *yaml.Node, key string) error {
	at, ok := e.entry(mapping, key)
	if !ok {
		return nil
	}
	return e.replace(at.start, at.end)
}

// perVersion moves what stands once for all versions into each that has none of its own.
func (e *edit) perVersion(once, each string) error {
	at, ok := e.entry(e.spec(), once)
	if !ok {
		return nil
	}
	if isEmpty(lookup(e.spec(), once)) && once != "subresources" {
		return e.remove(e.spec(), once)
	}
	key := e.spec().Content[index(e.spec(), once)].Line - 1 - at.start
	moved := e.cut(at, 0)
	moved[key] = strings.Replace(moved[key], once, each, 1)
	for i := range e.versions() {
		version := e.versions()[i]
		if index(version, each) >= 0 {
			continue
		}
		item := e.item(version)
		if err := e.insert(item.end, indented(moved, item.indent)...); err != nil {
			return err
		}
	}
	return e.remove(e.spec(), once)
}

// indented moves lines to the right.
func indented(lines []string, by int) []string {
	moved := make([]string, len(lines))
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			line = strings.Repeat(" ", by) + line
		}
		moved[i] = line
	}
	return moved
}

// scope is written where v1beta1 had a default.
func (e *edit) scope() error {
	i := index(e.spec(), "scope")
	switch {
	case !e.beta, i >= 0 && e.spec().Content[i+1].Value != "":
		return nil
	case i < 0:
		return e.insertBehindNames("scope: Namespaced")
	}
	key, value := e.spec().Content[i], e.spec().Content[i+1] // controller-gen has written it empty
	line := strings.Repeat(" ", key.Column-1) + "scope: Namespaced"
	if value.LineComment != "" {
		line += " " + value.LineComment
	}
	return e.replace(key.Line-1, key.Line, line)
}

// insertBehindNames adds a field to spec.
func (e *edit) insertBehindNames(line string) error {
	at, ok := e.entry(e.spec(), "names")
	if !ok {
		last := e.spec().Content[len(e.spec().Content)-2]
		at, _ = e.entry(e.spec(), last.Value)
	}
	return e.insert(at.end, strings.Repeat(" ", at.indent)+line)
}
