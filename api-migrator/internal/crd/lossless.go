// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Conversion strategy None changes apiVersion and nothing else. The API server then prunes what the schema of the
// version that it arrives at does not name, and fills in that version's defaults: on every write that is not in the
// storage version, and on every read. So nothing is lost, and nothing appears, if all schemas between which objects
// move name the same fields, in the same types and with the same defaults. What else a schema says (bounds, patterns,
// rules) refuses values, and never changes one.

// lossless says whether strategy None keeps all data of objects that may be stored in these versions.
func (d *CRD) lossless(stored []string) Judgement {
	spec := d.plain().Spec
	if spec.Conversion != nil && spec.Conversion.Strategy == apiextensionsv1.WebhookConverter {
		return notAsked("a webhook converts")
	}
	var moving []apiextensionsv1.CustomResourceDefinitionVersion
	for _, version := range spec.Versions {
		if version.Served || version.Storage || slices.Contains(stored, version.Name) {
			moving = append(moving, version)
		}
	}
	if len(moving) < 2 {
		return notAsked("objects are in one version alone")
	}
	var lost []string
	for i, a := range moving {
		for _, b := range moving[i+1:] {
			between := comparison{a: a.Name, b: b.Name, prunes: !d.preserves()}
			between.schemas("", a.Schema.OpenAPIV3Schema, b.Schema.OpenAPIV3Schema, false, false)
			lost = append(lost, between.differences...)
		}
	}
	slices.Sort(lost)
	return judge(slices.Compact(lost))
}

// comparison collects in what two versions differ.
type comparison struct {
	a, b string
	// prunes: fields that no schema names are dropped.
	prunes      bool
	differences []string
}

func (c *comparison) differ(path, format string, arguments ...any) {
	if path == "" {
		path = "the object"
	}
	c.differences = append(c.differences, path+" "+fmt.Sprintf(format, arguments...))
}

// schemas compares what stands at a path in both versions; keepsA and keepsB: it is an item of a list that keeps
// unknown fields.
func (c *comparison) schemas(path string, a, b *apiextensionsv1.JSONSchemaProps, keepsA, keepsB bool) {
	if path != "" { // the object itself is one
		c.values(path, a, b)
	}
	keepsA, keepsB = keepsA || keeps(a), keepsB || keeps(b)
	lists := a.Type == "array" && b.Type == "array" // a list has no fields; what it says is about its items
	if c.prunes && keepsA != keepsB && !lists {
		first, second := c.a, c.b
		if keepsB {
			first, second = second, first
		}
		c.differ(path, "keeps any field in %s, and not in %s: what is not named there is lost", first, second)
	}
	for _, name := range names(a, b) {
		if path == "" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
			continue // every object has them, whatever a schema says
		}
		c.inner(strings.TrimPrefix(path+"."+name, "."), property(a, name), property(b, name), keepsA, keepsB, false)
	}
	c.inner(path+"[]", items(a), items(b), keepsA, keepsB, true)
	c.inner(path+".*", values(a), values(b), keepsA, keepsB, false)
}

// inner compares the schemas of a field, of a list's items or of a map's values.
func (c *comparison) inner(path string, a, b *apiextensionsv1.JSONSchemaProps, keepsA, keepsB, list bool) {
	switch {
	case a != nil && b != nil:
		c.schemas(path, a, b, list && keepsA, list && keepsB)
	case a != nil:
		c.unnamed(path, c.a, c.b, a, keepsB)
	case b != nil:
		c.unnamed(path, c.b, c.a, b, keepsA)
	}
}

// values compares what two schemas say of a value apart from its fields.
func (c *comparison) values(path string, a, b *apiextensionsv1.JSONSchemaProps) {
	if a.Type != b.Type || a.XIntOrString != b.XIntOrString {
		c.differ(path, "is %s in %s, and %s in %s", typeOf(a), c.a, typeOf(b), c.b)
	}
	if !equality.Semantic.DeepEqual(a.Default, b.Default) {
		c.differ(path, "has other defaults in %s than in %s", c.a, c.b)
	} else if a.Default != nil && a.Nullable != b.Nullable { // null becomes the default where it is not allowed
		c.differ(path, "may be null in one of %s and %s, and becomes its default in the other", c.a, c.b)
	}
	if a.XEmbeddedResource != b.XEmbeddedResource {
		c.differ(path, "is an object with metadata in one of %s and %s alone", c.a, c.b)
	}
}

// unnamed is about what one version names and the other does not; kept: the other keeps it all the same.
func (c *comparison) unnamed(path, named, unnamed string, schema *apiextensionsv1.JSONSchemaProps, kept bool) {
	switch {
	case c.prunes && !kept:
		c.differ(path, "is in %s, and not in %s: it is lost there", named, unnamed)
	case c.prunes && drops(schema):
		c.differ(path, "keeps any field in %s, and not in %s: what is not named there is lost", unnamed, named)
	}
	if (!c.prunes || kept) && hasDefault(schema) {
		c.differ(path, "has a default in %s, and none in %s", named, unnamed)
	}
}

func keeps(schema *apiextensionsv1.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}

// drops reports whether there are values from which a schema takes something away.
func drops(schema *apiextensionsv1.JSONSchemaProps) bool {
	if schema.XIntOrString || schema.Type != "" && schema.Type != "object" && schema.Type != "array" {
		return false
	}
	for _, field := range schema.Properties {
		if drops(&field) {
			return true
		}
	}
	list, fields := items(schema), values(schema)
	switch {
	case keeps(schema):
		return false
	case schema.Type == "array" && list != nil:
		return drops(list)
	case fields != nil:
		return drops(fields)
	}
	return true
}

func names(a, b *apiextensionsv1.JSONSchemaProps) []string {
	var all []string
	for name := range a.Properties {
		all = append(all, name)
	}
	for name := range b.Properties {
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// property is the schema of a field, also where it is one of a map's values.
func property(schema *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if found, ok := schema.Properties[name]; ok {
		return &found
	}
	return values(schema)
}

func items(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

// values is the schema of a map's values; an empty one where any will do.
func values(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	switch additional := schema.AdditionalProperties; {
	case additional == nil:
		return nil
	case additional.Schema != nil:
		return additional.Schema
	case additional.Allows:
		return &apiextensionsv1.JSONSchemaProps{}
	}
	return nil
}

func typeOf(schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "an integer or a string"
	case schema.Type == "":
		return "of any type"
	}
	return "of type " + schema.Type
}

// hasDefault reports whether a schema has a default at any depth.
func hasDefault(schema *apiextensionsv1.JSONSchemaProps) bool {
	if schema.Default != nil {
		return true
	}
	for _, field := range schema.Properties {
		if hasDefault(&field) {
			return true
		}
	}
	for _, inner := range []*apiextensionsv1.JSONSchemaProps{items(schema), values(schema)} {
		if inner != nil && hasDefault(inner) {
			return true
		}
	}
	return false
}
