// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations"
)

// unhandled is the name under which crdify reports what none of its rules is about.
const unhandled = "unhandled"

// incompatibilities says what breaks clients or objects of the old CRD, sorted.
//
// crdify compares each version with itself. Its comparison of served versions with each other is not asked: it is blind
// to fields that only the later version has, and leaves out what the old CRD did already. See lossless.
func incompatibilities(before, after *CRD) ([]string, error) {
	checks, err := runner.New(&config.Config{
		Validations: []config.ValidationConfig{{Name: "description", Enforcement: config.EnforcementPolicyNone}},
	}, runner.DefaultRegistry())
	if err != nil {
		return nil, fmt.Errorf("configure crdify: %w", err)
	}
	old, next := withoutPruning(before.plain()), withoutPruning(after.plain())
	old.Status.StoredVersions = before.storedVersions()
	results := checks.Run(old, next)

	found := versionsGone(old, next)
	if was, is := old.Spec.Names.Kind, next.Spec.Names.Kind; was != is {
		found = append(found, "objects were of kind "+was+", and are of kind "+is)
	}
	for _, result := range results.CRDValidation {
		for _, problem := range result.Errors {
			found = append(found, steady(problem))
		}
	}
	for version, properties := range results.SameVersionValidation {
		oldSchema, newSchema := flat(old, version), flat(next, version)
		for property, results := range properties {
			if newSchema[property] == nil {
				continue // gone: reported as such
			}
			for _, result := range results {
				found = append(found, inWords(version, property, result, oldSchema[property], newSchema[property])...)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// versionsGone says which versions clients do not find any more.
func versionsGone(old, next *apiextensionsv1.CustomResourceDefinition) []string {
	var gone []string
	for _, version := range old.Spec.Versions {
		now := validations.GetCRDVersionByName(next, version.Name)
		switch {
		case !version.Served || now != nil && now.Served:
		case now == nil:
			gone = append(gone, "version "+version.Name+" was served, and is gone")
		default:
			gone = append(gone, "version "+version.Name+" was served, and is not served any more")
		}
	}
	return gone
}

// inWords shows what one rule found about one field.
func inWords(version, property string, result validations.ComparisonResult, before,
	after *apiextensionsv1.JSONSchemaProps) []string {
	place := version + " " + strings.TrimPrefix(strings.TrimPrefix(property, "^"), ".") + ": "
	if property == "^" {
		place = version + ": "
	}
	if len(result.Errors) > 0 && result.Name == unhandled {
		return []string{place + "changed, and nothing shows that it is compatible: " +
			strings.Join(changedKeywords(before, after), ", ")}
	}
	var found []string
	for _, problem := range result.Errors {
		found = append(found, place+steady(problem))
	}
	return found
}

// changedKeywords are the keywords of two schemas that differ, but for those that crdify has rules for.
func changedKeywords(before, after *apiextensionsv1.JSONSchemaProps) []string {
	handled := []string{
		"default", "enum", "maximum", "maxItems", "maxLength", "maxProperties", "minimum", "minItems",
		"minLength", "minProperties",
		"required", "type", "description", "properties", "items",
	}
	return slices.DeleteFunc(differing(before, after),
		func(keyword string) bool { return slices.Contains(handled, keyword) })
}

// differing are the keywords in which two schemas differ, sorted.
func differing(before, after *apiextensionsv1.JSONSchemaProps) []string {
	a, b := keywords(before), keywords(after)
	union := maps.Clone(a)
	maps.Copy(union, b)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(union)),
		func(keyword string) bool { return reflect.DeepEqual(a[keyword], b[keyword]) })
}

// keywords are the fields of a schema that are set.
func keywords(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	set := map[string]any{}
	if raw, err := json.Marshal(schema); err == nil {
		_ = json.Unmarshal(raw, &set) // what was marshaled from a struct is an object
	}
	return set
}

// plain is a copy without what says nothing about values, and with a schema in every version: crdify expects one.
func (d *CRD) plain() *apiextensionsv1.CustomResourceDefinition {
	crd := d.v1.DeepCopy()
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		if version.Schema == nil {
			version.Schema = &apiextensionsv1.CustomResourceValidation{}
		}
		if version.Schema.OpenAPIV3Schema == nil {
			version.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{}
		}
		strip(version.Schema.OpenAPIV3Schema)
	}
	return crd
}

// strip takes documentation away.
func strip(schema *apiextensionsv1.JSONSchemaProps) {
	everySchema(schema, func(schema *apiextensionsv1.JSONSchemaProps) {
		schema.Description, schema.Title, schema.Example, schema.ExternalDocs = "", "", nil, nil
	})
}

// everySchema changes a schema and those of its properties, items and values.
func everySchema(schema *apiextensionsv1.JSONSchemaProps, change func(*apiextensionsv1.JSONSchemaProps)) {
	change(schema)
	for name, property := range schema.Properties {
		everySchema(&property, change)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		everySchema(schema.Items.Schema, change)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		everySchema(schema.AdditionalProperties.Schema, change)
	}
}

// withoutPruning takes away what decides about pruning alone: crdify has no rule for it, so that it would count any
// change of it as incompatible, while prunedFrom says whether a change loses anything. No value is refused because of
// it.
func withoutPruning(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	for _, version := range crd.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		root.Type = cmp.Or(root.Type, "object") // which every object is, said or not
		everySchema(root, func(schema *apiextensionsv1.JSONSchemaProps) {
			schema.XPreserveUnknownFields = nil
			if additional := schema.AdditionalProperties; additional != nil && additional.Allows &&
				additional.Schema == nil {
				schema.AdditionalProperties = nil
			}
			if schema.Type == "" && !schema.XIntOrString {
				schema.Nullable = false // every value is valid, null too
			}
		})
	}
	return crd
}

func flat(crd *apiextensionsv1.CustomResourceDefinition,
	version string) map[string]*apiextensionsv1.JSONSchemaProps {
	found := validations.GetCRDVersionByName(crd, version)
	if found == nil {
		return nil
	}
	return validations.FlattenCRDVersion(*found)
}

// steady sorts the list at the end of a message, whose order crdify leaves to chance, and writes fields as we do.
func steady(problem string) string {
	problem = strings.ReplaceAll(strings.Replace(problem, " : ", ": ", 1), ".^.", " ")
	open := strings.LastIndex(problem, "[")
	if open < 0 || !strings.HasSuffix(problem, "]") {
		return problem
	}
	words := strings.Fields(problem[open+1 : len(problem)-1])
	slices.Sort(words)
	return problem[:open+1] + strings.Join(words, " ") + "]"
}
