// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"context"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/schemagen"
)

// generateSchemas makes the schemas of the kinds that move from their Go types, if the request asks for it. The types
// of the new version are copies of the old version's, with the same markers.
func (s *documents) generateSchemas(ctx context.Context) (err error) {
	if s.Request.Schema != request.SchemaGenerate {
		return nil
	}
	s.schemas, err = schemagen.Generate(ctx, s.Project.Workspace, s.Dir(layout.OldPackage), s.Request.Kinds)
	if err != nil {
		return hint.Errorf("api-migrator plan --schema copy", "controller-gen cannot make a schema of the types of %s: %w",
			s.Old.Name(), err)
	}
	return nil
}

// schemasFor are the schemas that a manifest gets; nil if they are copied. One without documentation stays so.
func (s *documents) schemasFor(file, text string) map[string]*apiextensionsv1.JSONSchemaProps {
	if s.schemas == nil {
		return nil
	}
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for kind, schema := range s.schemas {
		schemas[kind] = schema
		d, err := crd.Find(file, text, s.Old.Group, kind)
		if err == nil && !slices.ContainsFunc(d.Versions(), d.Describes) { // an error comes up where it is read
			schemas[kind] = schemagen.WithoutDescriptions(schema)
		}
	}
	return schemas
}

// compareGenerated reports what the schema that was written says and the one that the Go types give does not.
func (s *documents) compareGenerated(file string, before, after schema) error {
	if s.schemas == nil {
		return nil
	}
	was, err := crd.Find(file, before.text, before.group, before.kind)
	if err != nil {
		return err
	}
	is, err := crd.Find(file, after.text, after.group, after.kind)
	if err != nil {
		return err
	}
	version := before.version
	if !slices.Contains(was.Versions(), version) {
		version = was.Storage()
	}
	fields, unnamed := was.Drops(version, is, after.version)
	if len(fields) > 0 {
		s.Block(file, "objects would lose fields that the Go types lack: the schema of %s keeps them, and the one that is "+
			"generated for %s drops them: %s. Add them to the types, or use --schema copy", version, after.version,
			strings.Join(fields, ", "))
	}
	for i, path := range unnamed {
		if path == "" {
			unnamed[i] = "the object itself"
		}
	}
	if len(unnamed) > 0 {
		s.Warn(file, "objects may lose fields that no schema names: the schema of %s keeps them in %s, and the one that is "+
			"generated for %s drops them. The marker +kubebuilder:pruning:PreserveUnknownFields keeps them there", version,
			strings.Join(unnamed, ", "), after.version)
	}
	if loosened := was.Loosened(version, is, after.version); len(loosened) > 0 {
		s.Note(file, "the schema of %s is stricter than the one that is generated for %s, because the Go types lack markers for "+
			"this: %s", version, after.version, strings.Join(loosened, ", "))
	}
	if tightened := is.Loosened(after.version, was, version); len(tightened) > 0 {
		s.Warn(file, "objects that the schema of %s accepts may be refused in %s, because the one that is generated for it is "+
			"stricter: %s", version, after.version, strings.Join(tightened, ", "))
	}
	return nil
}
