// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiyaml "sigs.k8s.io/yaml"
)

// setSchema gives a version another schema. Comments above it stay.
func (e *edit) setSchema(version *yaml.Node, schema *apiextensionsv1.JSONSchemaProps) error {
	at, ok := e.entry(version, "schema")
	if !ok {
		return fmt.Errorf("version %s has no field schema", nameOf(version))
	}
	text, err := apiyaml.Marshal(map[string]any{"schema": map[string]any{"openAPIV3Schema": schema}})
	if err != nil {
		return fmt.Errorf("write schema: %w", err)
	}
	start := version.Content[index(version, "schema")].Line - 1
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines {
		switch {
		case i == 0: // it may be behind the dash of the version
			lines[i] = e.lines[start][:at.indent] + line
		case line != "":
			lines[i] = strings.Repeat(" ", at.indent) + line
		}
	}
	return e.replace(start, at.end, lines...)
}

// schemaOf is the schema of a version without documentation; an empty one without a version of that name.
func (d *CRD) schemaOf(version string) *apiextensionsv1.JSONSchemaProps {
	for _, one := range d.plain().Spec.Versions {
		if one.Name == version {
			return one.Schema.OpenAPIV3Schema
		}
	}
	return &apiextensionsv1.JSONSchemaProps{}
}

// Describes reports whether the schema of a version has documentation.
func (d *CRD) Describes(version string) (found bool) {
	for _, one := range d.v1.Spec.Versions {
		if one.Name == version && one.Schema != nil && one.Schema.OpenAPIV3Schema != nil {
			everySchema(one.Schema.OpenAPIV3Schema, func(s *apiextensionsv1.JSONSchemaProps) {
				found = found || s.Description != ""
			})
		}
	}
	return found
}

// Drops lists what an API server keeps in objects of one version, and drops once they are objects of a version of
// another CRD, which may be the same: the paths of fields, sorted, and of objects that keep fields which the schema does
// not name.
func (d *CRD) Drops(version string, other *CRD, otherVersion string) (fields, unnamed []string) {
	if other.preserves() {
		return nil, nil
	}
	p := &pruning{preserves: d.preserves()}
	p.object(d.schemaOf(version), other.schemaOf(otherVersion))
	return p.fields, p.unnamed
}

// Loosened lists the constraints of a version that a version of another CRD does not have, or has less strictly:
// "spec.size (maximum)". Fields that the other one does not name are left out; see Drops.
func (d *CRD) Loosened(version string, other *CRD, otherVersion string) []string {
	var found []string
	loosened("", d.schemaOf(version), other.schemaOf(otherVersion), &found)
	slices.Sort(found)
	return found
}

func loosened(path string, was, is *apiextensionsv1.JSONSchemaProps, found *[]string) {
	before, after := constraints(was), constraints(is)
	var lost []string
	for keyword, value := range before {
		if isLooser(keyword, value, after[keyword]) {
			lost = append(lost, keyword)
		}
	}
	if after["nullable"] == true && before["nullable"] != true {
		lost = append(lost, "nullable")
	}
	if len(lost) > 0 {
		slices.Sort(lost)
		name := path
		if name == "" {
			name = "the object itself"
		}
		*found = append(*found, fmt.Sprintf("%s (%s)", name, strings.Join(lost, ", ")))
	}
	for name, field := range was.Properties {
		if other, ok := is.Properties[name]; ok && (path != "" || name != "metadata") {
			loosened(strings.TrimPrefix(path+"."+name, "."), &field, &other, found)
		}
	}
	if before, after := items(was), items(is); before != nil && after != nil {
		loosened(path+"[]", before, after, found)
	}
	if before, after := values(was), values(is); before != nil && after != nil {
		loosened(path+".*", before, after, found)
	}
}

// constraints are the keywords of one schema, as JSON has them, but for those of what is below it.
func constraints(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	own := schema.DeepCopy()
	own.Properties, own.Items, own.AdditionalProperties, own.XPreserveUnknownFields = nil, nil, nil, nil
	content, err := json.Marshal(own)
	found := map[string]any{}
	if err == nil {
		err = json.Unmarshal(content, &found)
	}
	if err != nil { // a schema that was read from JSON
		panic(err)
	}
	return found
}

// isLooser reports whether a constraint is missing in another schema, or allows more there.
func isLooser(keyword string, was, is any) bool {
	switch keyword {
	case "nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems":
		return keyword != "nullable" && was == true && is != true
	case "maximum", "maxLength", "maxItems", "maxProperties":
		limit, ok := is.(float64)
		return !ok || limit > was.(float64)
	case "minimum", "minLength", "minItems", "minProperties":
		limit, ok := is.(float64)
		return !ok || limit < was.(float64)
	case "enum": // what it does not allow is refused
		return is == nil || !includes(was.([]any), is)
	case "required":
		return !includes(is, was)
	case "x-kubernetes-validations":
		return !includes(rules(is), rules(was))
	}
	return !reflect.DeepEqual(was, is)
}

// includes reports whether a list has every element of another one; a list may be nil.
func includes(list, elements any) bool {
	all, _ := list.([]any)
	wanted, _ := elements.([]any)
	return !slices.ContainsFunc(wanted, func(element any) bool {
		return !slices.ContainsFunc(all, func(one any) bool { return reflect.DeepEqual(one, element) })
	})
}

// rules are the expressions of a list of validations.
func rules(validations any) any {
	var found []any
	list, _ := validations.([]any)
	for _, one := range list {
		if fields, ok := one.(map[string]any); ok {
			found = append(found, fields["rule"])
		}
	}
	return found
}
