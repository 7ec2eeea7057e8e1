// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const preserveMarker = "x-kubernetes-preserve-unknown-fields"

// preserves reports whether the API server keeps every field, whatever the schemas say: by default in v1beta1, and
// where it is written.
func (e *edit) preserves() bool {
	value := lookup(e.spec(), "preserveUnknownFields")
	return isTrue(value) || e.beta && !isFalse(value)
}

// keepUnknownFields writes into the schemas what spec.preserveUnknownFields says once for all, which v1 does not take:
// every schema of an object gets the marker that keeps unknown fields. The marker of the root alone would not do: an
// API server prunes each field that has a schema by that schema again. See pruning.
func (e *edit) keepUnknownFields() error {
	if !e.preserves() {
		return nil
	}
	var marks marks
	for _, version := range e.versions() {
		marks.schema(schemaNode(version), true)
	}
	if len(marks.all) == 0 {
		return e.checkNothingIsPruned()
	}
	// From the end, so that the places of what comes before stay where they are.
	slices.SortStableFunc(marks.all, func(a, b mark) int {
		if a.line != b.line {
			return b.line - a.line
		}
		return b.column - a.column
	})
	for _, mark := range marks.all {
		if err := e.write(mark); err != nil {
			return err
		}
	}
	if err := e.parse(); err != nil {
		return err
	}
	e.note("fields that the schema does not name are kept as before: every object in the schema says %s: true now. "+
		"Remove it where they should be dropped", preserveMarker)
	return e.checkNothingIsPruned()
}

// mark is a place where a schema gets keywords.
type mark struct {
	// line and column are where the schema begins, counted from one; those of a key where the key is replaced.
	line, column int
	keywords     []string
	// flow: the schema is written in braces.
	flow bool
	// empty: it is written in braces, with nothing in them.
	empty bool
	// replaces is the key that becomes the marker; empty where keywords are added.
	replaces string
}

// marks collects the places of a document.
type marks struct {
	all  []mark
	seen []*yaml.Node
}

// schema visits a schema and those of its properties, items and values; not those in anyOf and its like, which only
// validate.
func (m *marks) schema(schema *yaml.Node, isRoot bool) {
	schema = resolved(schema)
	if schema == nil || schema.Kind != yaml.MappingNode || slices.Contains(m.seen, schema) ||
		isTrue(lookup(schema, "x-kubernetes-int-or-string")) {
		return
	}
	m.seen = append(m.seen, schema)
	hasMetadata := isRoot || isTrue(lookup(schema, "x-kubernetes-embedded-resource"))
	if properties := resolved(lookup(schema, "properties")); properties != nil && properties.Kind == yaml.MappingNode {
		for i := 0; i < len(properties.Content); i += 2 {
			// which no schema prunes, and v1 wants bare at the root
			if name := properties.Content[i].Value; !hasMetadata || !slices.Contains(metaFields, name) {
				m.schema(properties.Content[i+1], false)
			}
		}
	}
	m.schema(lookup(schema, "additionalProperties"), false)
	m.schema(lookup(schema, "items"), false)
	m.mark(schema, isRoot)
}

// mark decides what a schema needs.
func (m *marks) mark(schema *yaml.Node, isRoot bool) {
	kind := valueOf(schema, "type")
	additional := index(schema, "additionalProperties")
	// A map keeps every field, and what is in it by the schema of its values.
	isMap := additional >= 0 && resolved(schema.Content[additional+1]).Kind == yaml.MappingNode
	// The items of a list may be anything where nothing is said about them; v1 wants that to be said.
	isList := kind == "array" && index(schema, "items") < 0
	if kind != "" && kind != "object" && !isList || kind == "object" && isMap {
		return
	}
	flow := schema.Style&yaml.FlowStyle != 0
	begin := schema
	if !flow && len(schema.Content) > 0 {
		begin = schema.Content[0]
	}
	here := mark{line: begin.Line, column: begin.Column, flow: flow, empty: len(schema.Content) == 0}
	isMarked := index(schema, preserveMarker) >= 0
	if additional >= 0 && isTrue(schema.Content[additional+1]) && !isMarked {
		// It says that any field may be there, as the marker does, but drops what is below those fields.
		key := schema.Content[additional]
		m.all = append(m.all, mark{line: key.Line, column: key.Column, replaces: key.Value})
		isMarked = true
	}
	switch {
	case isList:
		here.keywords = append(here.keywords, "items: {"+preserveMarker+": true}")
	case !isMarked:
		here.keywords = append(here.keywords, preserveMarker+": true")
	}
	if kind == "" && !isRoot && index(schema, "nullable") < 0 && index(schema, "default") < 0 {
		// v1 drops null where it is not allowed, and without a type it was
		here.keywords = append(here.keywords, "nullable: true")
	}
	if len(here.keywords) > 0 {
		m.all = append(m.all, here)
	}
}

// schemaNode is where the schema of a version is written; nil where there is none.
func schemaNode(version *yaml.Node) *yaml.Node {
	return resolved(lookup(resolved(lookup(version, "schema")), "openAPIV3Schema"))
}

// resolved is what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// write puts one mark into the lines, without reading the document again.
func (e *edit) write(m mark) error {
	line := []rune(e.lines[m.line-1])
	before, after := string(line[:m.column-1]), string(line[m.column-1:])
	switch {
	case m.replaces != "":
		if !strings.Contains(after, m.replaces) {
			return fmt.Errorf("edit line %d: it has no %q", m.line, m.replaces)
		}
		e.lines[m.line-1] = before + strings.Replace(after, m.replaces, preserveMarker, 1)
	case m.flow:
		anchor, fields, ok := strings.Cut(after, "{")
		if !ok {
			return fmt.Errorf("edit line %d: it has no {", m.line)
		}
		added := strings.Join(m.keywords, ", ")
		if !m.empty {
			added += ", "
		}
		e.lines[m.line-1] = before + anchor + "{" + added + fields
	default:
		indent := m.column - 1
		added := make([]string, 0, len(m.keywords))
		for _, keyword := range m.keywords {
			added = append(added, strings.Repeat(" ", indent)+keyword)
		}
		e.lines = slices.Insert(e.lines, e.tail(m.line-1, indent, len(e.lines)), added...)
	}
	return nil
}

// checkNothingIsPruned makes sure that every field is kept which was kept before, also where a schema is written in a
// way that the marks do not know, such as merge keys.
func (e *edit) checkNothingIsPruned() error {
	for _, version := range e.versions() {
		schema, err := schemaOf(version)
		if err != nil || schema == nil {
			return err // nil: the API server's validation says that it is missing
		}
		p := &pruning{preserves: true}
		p.object(schema, schema)
		if reasons := p.reasons(nameOf(version)); len(reasons) > 0 {
			return &prunedError{fmt.Errorf("the upgrade would not keep the meaning of preserveUnknownFields: true: %s",
				strings.Join(reasons, "; "))}
		}
	}
	return nil
}

// prunedError says that fields would be lost which the CRD has kept.
type prunedError struct{ error }

// schemaOf reads the schema of a version; nil where there is none, or one that the API server's validation refuses for
// its form.
func schemaOf(version *yaml.Node) (*apiextensionsv1.JSONSchemaProps, error) {
	node := schemaNode(version)
	if node == nil {
		return nil, nil //nolint:nilnil // there is none, and that is not an error here
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, fmt.Errorf("read the schema of version %s: %w", nameOf(version), err)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("read the schema of version %s: %w", nameOf(version), err)
	}
	schema := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal(raw, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("read the schema of version %s", nameOf(version)), err)
	}
	return schema, nil
}
