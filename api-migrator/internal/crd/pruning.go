// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
)

// An API server prunes every object that it reads from etcd or from a request: it drops the fields that the schema of
// the object's version does not name. Three rules decide about one field, and pruning follows them:
//   - spec.preserveUnknownFields: true (only a CRD that was created through v1beta1 has it) keeps every field at every
//     depth.
//   - x-kubernetes-preserve-unknown-fields: true keeps the fields that its schema does not name, at every depth. A
//     field that the schema names is pruned by its own schema again, also where that says no more than `type: object`.
//     Items of a list inherit it.
//   - `additionalProperties: true` keeps the field and drops every field below it.
//
// apiVersion, kind and metadata of the object, and of an embedded resource, are never pruned by a schema.

// pruning collects what the new schema of a version drops from objects that the old one kept whole.
type pruning struct {
	// preserves: spec.preserveUnknownFields of the old CRD is true.
	preserves bool
	// fields are the paths of fields that the old schema names and the new one drops.
	fields []string
	// unnamed are the paths of objects that kept fields which the schema does not name, and do not keep them any more.
	unnamed []string
}

// metaFields are fields that every object, and every embedded resource, keeps.
var metaFields = []string{"apiVersion", "kind", "metadata"}

// prunedFrom says what an API server drops from objects of before once after has taken its place, one reason for each
// field that is named in before, and one for all that is not. Versions are compared with themselves; see lossless for
// what happens between versions.
func (d *CRD) prunedFrom(before *CRD) []string {
	if d.preserves() {
		return nil
	}
	var reasons []string
	stored := before.storedVersions()
	for _, was := range before.plain().Spec.Versions {
		is := slices.IndexFunc(d.v1.Spec.Versions,
			func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name })
		if is < 0 || !was.Served && !was.Storage && !slices.Contains(stored, was.Name) {
			continue
		}
		p := &pruning{preserves: before.preserves()}
		p.object(was.Schema.OpenAPIV3Schema, d.plain().Spec.Versions[is].Schema.OpenAPIV3Schema)
		reasons = append(reasons, p.reasons(was.Name)...)
	}
	return reasons
}

// reasons are sentences about one version.
func (p *pruning) reasons(version string) []string {
	var reasons []string
	for _, path := range p.fields {
		reasons = append(reasons, fmt.Sprintf("%s %s: objects lose it as they are rewritten: the old schema kept it, "+
			"the new one drops it", version, path))
	}
	if len(p.unnamed) > 0 {
		if p.unnamed[0] == "" {
			p.unnamed[0] = "the object itself"
		}
		reasons = append(reasons, fmt.Sprintf("%s: objects lose the fields that the schema does not name, as they "+
			"are rewritten: the old CRD kept them in %s, the new one drops them", version, phrase.Few(p.unnamed)))
	}
	return reasons
}

// object compares the schemas of a whole object.
func (p *pruning) object(was, is *apiextensionsv1.JSONSchemaProps) {
	embedded := func(root *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
		marked := *root
		marked.XEmbeddedResource = true // as the API server treats the root
		return &marked
	}
	p.value("", embedded(was), embedded(is), false, false)
	slices.Sort(p.fields)
	slices.Sort(p.unnamed)
}

// value compares what was kept at a path with what is kept now; wasKept and isKept: it is an item of a list that keeps
// unknown fields. Values that the old schema, or the new one, refuses for their type are left out: they cannot be
// stored, or writing them back fails.
func (p *pruning) value(path string, was, is *apiextensionsv1.JSONSchemaProps, wasKept, isKept bool) {
	wasKept, isKept = wasKept || p.preserves || keeps(was), isKept || keeps(is)
	both := func(kind string) bool {
		return !was.XIntOrString && !is.XIntOrString && slices.Contains([]string{"", kind}, was.Type) &&
			slices.Contains([]string{"", kind}, is.Type)
	}
	if isKept && len(is.Properties) == 0 && is.AdditionalProperties == nil && is.Items == nil {
		return // it keeps everything
	}
	if both("object") {
		p.fieldsOf(path, was, is, wasKept, isKept)
	}
	// Two schemas without a type and without items treat lists as they treat objects; descending would never end.
	if both("array") && (was.Type != "" || items(was) != nil || items(is) != nil) {
		p.value(path+"[]", orElse(items(was), wasKept), orElse(items(is), isKept), wasKept, isKept)
	}
}

// fieldsOf compares the fields of an object.
func (p *pruning) fieldsOf(path string, was, is *apiextensionsv1.JSONSchemaProps, wasKept, isKept bool) {
	all := names(was, is)
	if was.XEmbeddedResource {
		all = append(all, metaFields...)
		slices.Sort(all)
		all = slices.Compact(all)
	}
	for _, name := range all {
		if is.XEmbeddedResource && slices.Contains(metaFields, name) {
			continue
		}
		inner := strings.TrimPrefix(path+"."+name, ".")
		before, after := kept(was, name, wasKept), kept(is, name, isKept)
		switch {
		case before == nil:
		case after == nil:
			p.fields = append(p.fields, inner)
		default:
			p.value(inner, before, after, false, false)
		}
	}
	before, after := kept(was, "", wasKept), kept(is, "", isKept) // of fields that neither names
	switch {
	case before == nil:
	case after == nil:
		p.unnamed = append(p.unnamed, path)
	default:
		p.value(path+".*", before, after, false, false)
	}
}

// kept is the schema by which the value of a field is kept; nil where the field is dropped.
func kept(schema *apiextensionsv1.JSONSchemaProps, name string, keepsUnknown bool) *apiextensionsv1.JSONSchemaProps {
	if found := property(schema, name); found != nil {
		return found
	}
	if keepsUnknown || schema.XEmbeddedResource && slices.Contains(metaFields, name) {
		return orElse(nil, true)
	}
	return nil
}

// orElse stands for a schema that is not there: one that keeps everything, or nothing.
func orElse(schema *apiextensionsv1.JSONSchemaProps, keepsAll bool) *apiextensionsv1.JSONSchemaProps {
	if schema != nil {
		return schema
	}
	return &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &keepsAll}
}
