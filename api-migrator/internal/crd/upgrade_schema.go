// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// missingSchemas gives a version without a schema one that says what v1beta1 meant without: anything goes, and all of
// it is kept.
func (e *edit) missingSchemas() error {
	if !e.beta || !e.preserves() {
		return nil
	}
	for i := range e.versions() {
		version := e.versions()[i]
		if lookup(version, "schema") != nil {
			continue
		}
		item := e.item(version)
		lines := []string{"schema:", "  openAPIV3Schema:", "    type: object", "    " + preserveMarker + ": true"}
		if err := e.insert(item.end, indented(lines, item.indent)...); err != nil {
			return err
		}
		e.note("version %s had no schema, and has one now that keeps every field", nameOf(version))
	}
	return nil
}

func nameOf(version *yaml.Node) string {
	if name := lookup(version, "name"); name != nil {
		return name.Value
	}
	return ""
}

// missingTypes writes the type that a schema's other fields imply. v1beta1 did without; v1 wants it at every level.
func (e *edit) missingTypes() error {
	if !e.beta {
		return nil
	}
	var untyped []typeless
	for _, version := range e.versions() {
		root := lookup(version, "schema", "openAPIV3Schema")
		untyped = append(untyped, typesMissing(nil, root)...)
	}
	// From the end, so that the places of what comes before stay where they are.
	slices.SortStableFunc(untyped, func(a, b typeless) int { return b.schema.Line - a.schema.Line })
	seen := map[string]bool{}
	for _, u := range untyped {
		last := u.schema.Content[0]
		indent := last.Column - 1
		at := e.tail(last.Line-1, indent, len(e.lines))
		e.lines = slices.Insert(e.lines, at, strings.Repeat(" ", indent)+"type: "+u.kind)
		if note := strings.Join(u.path, ".") + " had no type, and is of type " + u.kind +
			" now: other values are refused"; len(u.path) > 0 && !seen[note] {
			seen[note] = true
			e.note("%s", note)
		}
	}
	return e.parse()
}

// typeless is a schema without a type, and the one that its fields imply.
type typeless struct {
	path   []string
	schema *yaml.Node
	kind   string
}

// typesMissing walks a schema as far as structural schemas want types: not into anyOf and its like.
func typesMissing(path []string, schema *yaml.Node) (all []typeless) {
	if schema == nil || schema.Kind != yaml.MappingNode {
		return nil
	}
	has := func(key string) bool { return index(schema, key) >= 0 }
	if !has("type") && !has("x-kubernetes-int-or-string") && len(schema.Content) > 0 &&
		schema.Style&yaml.FlowStyle == 0 {
		switch {
		case has("properties"), lookup(schema, "additionalProperties") != nil &&
			lookup(schema, "additionalProperties").Kind == yaml.MappingNode, len(path) == 0:
			all = append(all, typeless{path: path, schema: schema, kind: "object"})
		case has("items"):
			all = append(all, typeless{path: path, schema: schema, kind: "array"})
		}
	}
	if properties := lookup(schema, "properties"); properties != nil && properties.Kind == yaml.MappingNode {
		for i := 0; i < len(properties.Content); i += 2 {
			all = append(all, typesMissing(append(slices.Clone(path), properties.Content[i].Value),
				properties.Content[i+1])...)
		}
	}
	all = append(all, typesMissing(append(slices.Clone(path), "*"), lookup(schema, "additionalProperties"))...)
	return append(all, typesMissing(append(slices.Clone(path), "[]"), lookup(schema, "items"))...)
}

// preserveUnknownFields becomes false, since v1 takes nothing else; the schemas say now what it said. False is written,
// because `kubectl apply` would leave the true of v1beta1 in a cluster otherwise.
func (e *edit) preserveUnknownFields() error {
	value := lookup(e.spec(), "preserveUnknownFields")
	switch {
	case value == nil && !e.beta, isFalse(value):
		return nil
	case value == nil:
		if err := e.insertBehindNames("preserveUnknownFields: false"); err != nil {
			return err
		}
	default:
		if err := e.retoken(value, value.Value, strconv.FormatBool(false)); err != nil {
			return err
		}
	}
	return nil
}

// hasOldWebhook reports whether a webhook's fields are where v1beta1 had them.
func (d *document) hasOldWebhook() bool {
	conversion := lookup(d.root, "spec", "conversion")
	return valueOf(conversion, "strategy") == "Webhook" &&
		(index(conversion, "webhookClientConfig") >= 0 || index(conversion, "conversionReviewVersions") >= 0)
}

// conversion moves the fields of a webhook to where v1 has them.
func (e *edit) conversion() error {
	conversion := lookup(e.spec(), "conversion")
	client, hasClient := e.entry(conversion, "webhookClientConfig")
	reviews, hasReviews := e.entry(conversion, "conversionReviewVersions")
	if !e.hasOldWebhook() {
		return nil
	}
	inner := client.indent + 2
	if !hasClient {
		inner = reviews.indent + 2
	}
	pad := strings.Repeat(" ", inner-2)
	webhook := []string{pad + "webhook:"}
	if hasClient {
		moved := e.cut(client, inner)
		key := conversion.Content[index(conversion, "webhookClientConfig")].Line - 1 - client.start
		moved[key] = strings.Replace(moved[key], "webhookClientConfig", "clientConfig", 1)
		webhook = append(webhook, moved...)
	}
	if hasReviews {
		webhook = append(webhook, e.cut(reviews, inner)...)
	} else { // what v1beta1 meant without
		webhook = append(webhook, pad+"  conversionReviewVersions:", pad+"  - v1beta1")
	}
	first, second := client, reviews
	if !hasClient || hasReviews && reviews.start < client.start {
		first, second = reviews, client
	}
	if hasClient && hasReviews {
		if err := e.replace(second.start, second.end); err != nil {
			return err
		}
	}
	return e.replace(first.start, first.end, webhook...)
}
