// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command api-reference writes the page about the objects of migration.k8s.io, from the schemas of their CRDs.
package main

//go:generate go run . ../../../../../docs/api.md

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/config"
)

const beginning = `# The API

<!-- Written by make generate, from config/crd. -->

The objects of the API group %s. ` + "`kubectl explain`" + ` shows the same in a cluster, for example
` + "`kubectl explain storageversionmigrations.spec`" + `. Users write the fields below ` + "`spec`" + `, and
kube-migrator writes those below ` + "`status`" + `. Names of fields in the descriptions begin with a capital letter, as in the
Go package ` + "`api/v1alpha1`" + `. The [runbook](runbook.md) says what to do about the reasons of conditions.
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "no file named\nTry: go generate ./kube-migrator/internal/cli/...")
		os.Exit(1)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the page to a file.
func write(path string) error {
	crds, err := read(config.CRDs)
	if err != nil {
		return err
	}
	var page strings.Builder
	fmt.Fprintf(&page, beginning, crds[0].Spec.Group)
	for _, crd := range crds {
		describe(&page, crd)
	}
	if err := os.WriteFile(path, []byte(page.String()), 0o644); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	return nil
}

// read returns the CRDs of a folder, in the order of their kinds.
func read(files fs.FS) ([]apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "crd/*_*.yaml")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("find CRDs: %d found: %w", len(names), err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(data, &crd); err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		all = append(all, crd)
	}
	slices.SortFunc(all, func(a, b apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Spec.Names.Kind, b.Spec.Names.Kind)
	})
	return all, nil
}

// describe writes the section of one kind.
func describe(page *strings.Builder, crd apiextensionsv1.CustomResourceDefinition) {
	names := crd.Spec.Names
	for _, version := range crd.Spec.Versions {
		schema := version.Schema.OpenAPIV3Schema
		fmt.Fprintf(page, "\n## %s\n\n%s\n\n", names.Kind, paragraph(schema.Description))
		fmt.Fprintf(page, "`%s.%s/%s`, scope %s", names.Plural, crd.Spec.Group, version.Name, crd.Spec.Scope)
		if len(names.ShortNames) > 0 {
			fmt.Fprintf(page, ", short names `%s`", strings.Join(names.ShortNames, "`, `"))
		}
		page.WriteString(".\n\n| field | type | meaning |\n|---|---|---|\n")
		for _, part := range []string{"spec", "status"} {
			if field, ok := schema.Properties[part]; ok {
				row(page, part, field)
			}
		}
	}
}

// row writes a field and the fields below it.
func row(page *strings.Builder, path string, field apiextensionsv1.JSONSchemaProps) {
	meaning := strings.ReplaceAll(paragraph(field.Description), "|", `\|`)
	fmt.Fprintf(page, "| `%s` | %s | %s |\n", path, typeOf(field), meaning)
	inner := field
	if field.Items != nil && field.Items.Schema != nil {
		inner, path = *field.Items.Schema, path+"[]"
	}
	if field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil {
		inner, path = *field.AdditionalProperties.Schema, path+".*"
	}
	for _, name := range slices.Sorted(maps.Keys(inner.Properties)) {
		row(page, path+"."+name, inner.Properties[name])
	}
}

// typeOf says what a value is: "string", "list of objects", "time".
func typeOf(field apiextensionsv1.JSONSchemaProps) string {
	switch {
	case field.Items != nil && field.Items.Schema != nil:
		return "list of " + typeOf(*field.Items.Schema) + "s"
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*field.AdditionalProperties.Schema) + "s"
	case field.Format == "date-time":
		return "time"
	}
	return field.Type
}

// paragraph is a description as one paragraph.
func paragraph(text string) string { return strings.Join(strings.Fields(text), " ") }
