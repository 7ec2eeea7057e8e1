// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Names are what a cluster calls a resource.
type Names struct {
	Group, Kind, List, Plural, Singular string
}

// Succession says which CRD replaces which if the group or the kind changes: a cluster converts between the versions of
// one CRD only, so the new one begins without objects.
type Succession struct {
	// Group and Kind are those of the old CRD.
	Group, Kind string
	// Version is the one of its versions whose schema the new CRD has. Without such a version it is the one that
	// is stored.
	Version string
	// To and ToVersion are those of the new CRD. It has this version only.
	To        Names
	ToVersion string
	// Schema is that of ToVersion. Default: that of Version.
	Schema *apiextensionsv1.JSONSchemaProps
}

// Succeed makes the new CRD from the file that has the old one, with the same comments and in the same style.
// Like Upgrade, it returns the outcome with a RefusedError too.
func Succeed(ctx context.Context, from, file string, succession Succession) (*Upgraded, error) {
	lead := ""
	for _, part := range split(strings.ReplaceAll(file, "\r\n", "\n")) {
		if !isContent(part) {
			lead = part
			continue
		}
		d := succession.documentIn(from, part)
		if d == nil {
			lead = ""
			continue
		}
		e := &edit{document: d, beta: strings.HasSuffix(lookup(d.root, "apiVersion").Value, "/v1beta1")}
		if err := e.succeed(succession); err != nil {
			return nil, fmt.Errorf("make a CRD after %s: %w", from, err)
		}
		crd, err := Parse(from, []byte(e.String()))
		if err != nil {
			return nil, err
		}
		outcome := &Upgraded{Text: e.String(), CRDs: []*CRD{crd}, Alone: true, Notes: e.notes}
		if strings.TrimSpace(lead) == "---" {
			outcome.Text = lead + outcome.Text
		}
		if problems := append(crd.CreateProblems(ctx), crd.dropped()...); len(problems) > 0 {
			return outcome, &RefusedError{From: from, Problems: problems}
		}
		return outcome, nil
	}
	return nil, fmt.Errorf("make a CRD after %s: it has no %s for %s in %s", from, Kind,
		succession.Kind, succession.Group)
}

// documentIn is the old CRD if a part of a file has it, alone or in a list; nil otherwise.
func (s Succession) documentIn(from, part string) *document {
	texts, err := crdTexts(from, part)
	if err != nil {
		return nil // it is not the old CRD, and the new one has a file of its own
	}
	for _, text := range texts {
		if d, err := newDocument(text); err == nil && s.isAbout(d) {
			return d
		}
	}
	return nil
}

func (s Succession) isAbout(d *document) bool {
	is := func(value string, keys ...string) bool {
		n := lookup(d.root, keys...)
		return n != nil && n.Value == value
	}
	return is(Kind, "kind") && is(s.Group, "spec", "group") && is(s.Kind, "spec", "names", "kind") &&
		lookup(d.root, "apiVersion") != nil
}

func (e *edit) succeed(s Succession) error {
	if err := e.all(Options{}); err != nil {
		return err
	}
	if names := lookup(e.spec(), "names"); names.Style&yaml.FlowStyle != 0 {
		blocks, err := e.inBlocks()
		if err != nil {
			return err
		}
		e.document = blocks
	}
	for _, step := range []func() error{
		func() error { return e.oneVersion(s) },
		func() error { return e.remove(e.spec(), "conversion") }, // there is nothing to convert from
		func() error { return e.remove(e.root, "status") },
		func() error { return e.shortNames(s) },
		func() error { return e.set(s.To.Plural+"."+s.To.Group, "metadata", "name") },
		func() error { return e.set(s.To.Group, "spec", "group") },
		func() error { return e.set(s.To.Kind, "spec", "names", "kind") },
		func() error { return e.set(s.To.List, "spec", "names", "listKind") },
		func() error { return e.set(s.To.Plural, "spec", "names", "plural") },
		func() error { return e.set(s.To.Singular, "spec", "names", "singular") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// oneVersion leaves the version that the new one is a copy of.
func (e *edit) oneVersion(s Succession) error {
	chosen := e.version(s.Version)
	if chosen == nil {
		stored := slices.IndexFunc(e.versions(), func(v *yaml.Node) bool { return isTrue(lookup(v, "storage")) })
		if stored < 0 {
			return fmt.Errorf("it has no version %s, and none that is stored", s.Version)
		}
		chosen = e.versions()[stored]
		e.note("it has no version %s: the schema is that of %s", s.Version, nameOf(chosen))
	}
	name := nameOf(chosen)
	for len(e.versions()) > 1 {
		other := e.versions()[slices.IndexFunc(e.versions(), func(v *yaml.Node) bool { return nameOf(v) != name })]
		if err := e.removeVersion(nameOf(other)); err != nil {
			return err
		}
	}
	if err := e.restate(0, s.ToVersion, true); err != nil || s.Schema == nil {
		return err
	}
	return e.setSchema(e.versions()[0], s.Schema)
}

// shortNames go where the group is the same: a cluster refuses a CRD with the short name of another one of its
// group.
func (e *edit) shortNames(s Succession) error {
	short := lookup(e.spec(), "names", "shortNames")
	if s.To.Group != s.Group || isEmpty(short) {
		return nil
	}
	var names []string
	for _, name := range short.Content {
		names = append(names, name.Value)
	}
	e.note("short names %s belong to the old CRD as long as it is there", strings.Join(names, ", "))
	return e.remove(lookup(e.spec(), "names"), "shortNames")
}

// set replaces a text where there is one. What is not written has a default, which is the same in the new CRD's
// names.
func (e *edit) set(text string, keys ...string) error {
	n := lookup(e.root, keys...)
	if n == nil || n.Value == "" {
		return nil
	}
	return e.retoken(n, n.Value, text)
}
