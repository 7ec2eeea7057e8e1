// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package schemagen generates the schemas of kinds from their Go types, with controller-gen's own code.
//
// It reads packages from the disk, and writes nothing. Invariant: a schema is what controller-gen writes for the same
// type and markers with its default options, without the descriptions of metadata.
package schemagen

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// Generate returns the schema of each kind of a package, by the kind's name. The package is that of a folder, relative
// to the workspace's root. What controller-gen does not accept, such as a floating-point number, is an error.
func Generate(ctx context.Context, workspace *project.Workspace, dir string,
	kinds []string) (map[string]*apiextensionsv1.JSONSchemaProps, error) {
	module := workspace.ModuleOf(dir)
	roots, err := loader.LoadRootsWithConfig(&packages.Config{
		Context: ctx, Dir: filepath.Join(workspace.Root, filepath.FromSlash(module.Dir)), Env: workspace.Env(),
		BuildFlags: workspace.BuildFlags(module),
	}, workspace.ImportPath(dir))
	if err != nil {
		return nil, fmt.Errorf("load packages for schemas: %w", err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return nil, fmt.Errorf("register markers: %w", err)
	}
	parser := &crd.Parser{
		Collector: &markers.Collector{Registry: registry},
		Checker:   &loader.TypeChecker{NodeFilters: []loader.NodeFilter{crd.Generator{}.CheckFilter()}},
	}
	crd.AddKnownTypes(parser)
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, root := range roots {
		parser.NeedPackage(root)
		for _, kind := range kinds {
			ident := crd.TypeIdent{Package: root, Name: kind}
			parser.NeedFlattenedSchemaFor(ident)
			schema, ok := parser.FlattenedSchemata[ident]
			if !ok {
				return nil, fmt.Errorf("generate the schema of %s: %w", kind, complaints(roots))
			}
			schemas[kind] = withoutMetadata(schema.DeepCopy())
		}
	}
	return schemas, complaints(roots)
}

// withoutMetadata leaves the metadata of the object to the API server, which accepts no schema for it.
func withoutMetadata(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if _, ok := schema.Properties["metadata"]; ok {
		schema.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object"}
	}
	return schema
}

// WithoutDescriptions is a schema without documentation, for manifests that have none.
func WithoutDescriptions(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	short := schema.DeepCopy()
	crd.TruncateDescription(short, 0)
	return short
}

// complaints are what controller-gen says about packages, each once.
func complaints(roots []*loader.Package) error {
	var said []error
	var texts []string
	seen := map[*loader.Package]bool{}
	var visit func(*loader.Package)
	visit = func(pkg *loader.Package) {
		if seen[pkg] {
			return
		}
		seen[pkg] = true
		for _, one := range pkg.Errors {
			if text := one.Error(); one.Kind != packages.TypeError && !slices.Contains(texts, text) {
				texts, said = append(texts, text), append(said, one)
			}
		}
		for _, imported := range pkg.Imports() {
			visit(imported)
		}
	}
	for _, root := range roots {
		visit(root)
	}
	return errors.Join(said...)
}
