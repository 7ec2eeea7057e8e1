// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd upgrades manifests of CustomResourceDefinitions, and judges what an API server and its clients would say
// to a new one.
//
// It owns the edits of a manifest's text (Upgrade), the CRD that takes another one's place (Succeed), the names
// of its file and what refers to them (Change), and the four questions about an old and a new CRD: would it be
// created, would it take the old one's place, is it compatible, does conversion strategy None keep all data (Check). It
// never writes a file, reads through a Folder alone, and never asks a cluster.
//
// It holds that
//   - an upgrade touches the lines that it must and no others: comments and the order of keys stay;
//   - what Upgrade returns without an error is accepted by the API server's own validation;
//   - what Upgrade returns without an error keeps every field that the CRD kept before: no API server prunes more (but
//     for a schema that the caller gives, Options.Schemas);
//   - upgrading what was upgraded changes nothing.
package crd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

// Kind is that of the objects that this package is about, and apiGroup is their group.
const (
	Kind     = "CustomResourceDefinition"
	apiGroup = v1beta1.GroupName
)

// CRDs knows the three forms of a CustomResourceDefinition.
var crds = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
})

// CRD is one CustomResourceDefinition as an API server would read it, with its defaults.
type CRD struct {
	// Name is metadata.name.
	Name string
	// From names its place for users.
	From string
	// Unknown are fields that no version of the API has; the API server drops them.
	Unknown []string

	// version is the manifest's version of apiextensions.k8s.io: v1 or v1beta1.
	version string
	// internal is what the API server validates.
	internal *apiextensions.CustomResourceDefinition
	// v1 is the same in the form of the API.
	v1 *apiextensionsv1.CustomResourceDefinition
	// saysPreserve: the manifest sets spec.preserveUnknownFields.
	saysPreserve bool
	// saysStored: the manifest sets status.storedVersions.
	saysStored bool
}

// Parse reads one CustomResourceDefinition from JSON or YAML. Fields that the API does not know are no error; see
// Unknown. Strings that Helm fills in are judged as if it had.
func Parse(from string, raw []byte) (*CRD, error) {
	scheme := crds()
	raw = filledIn(raw)
	codec := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme,
		serializer.SerializerOptions{Yaml: !json.Valid(raw), Strict: true})
	object, kind, err := codec.Decode(raw, nil, nil)
	strict, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, fmt.Errorf("read %s: %w", from, err)
	}
	known := []schema.GroupVersionKind{apiextensionsv1.SchemeGroupVersion.WithKind(Kind),
		v1beta1.SchemeGroupVersion.WithKind(Kind)}
	if !slices.Contains(known, *kind) {
		return nil, fmt.Errorf("read %s: it is a %s, not a %s", from, kind.Kind, Kind)
	}
	d := &CRD{From: from, version: kind.Version, internal: &apiextensions.CustomResourceDefinition{},
		v1: &apiextensionsv1.CustomResourceDefinition{}}
	if isStrict {
		for _, problem := range strict.Errors() {
			d.Unknown = append(d.Unknown, problem.Error())
		}
	}
	var written said
	if err := yaml.Unmarshal(raw, &written); err != nil {
		return nil, fmt.Errorf("read %s: %w", from, err)
	}
	d.saysPreserve, d.saysStored = written.Spec.PreserveUnknownFields != nil, len(written.Status.StoredVersions) > 0
	scheme.Default(object)
	if err := errors.Join(scheme.Convert(object, d.internal, nil), scheme.Convert(d.internal, d.v1, nil)); err != nil {
		return nil, fmt.Errorf("read %s: %w", from, err)
	}
	d.Name = d.internal.Name
	return d, nil
}

// said are the fields of a manifest for which defaults would hide whether they are written.
type said struct {
	Spec struct {
		PreserveUnknownFields *bool `json:"preserveUnknownFields"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string `json:"storedVersions"`
	} `json:"status"`
}

// preserves reports whether fields are kept that no schema names.
func (d *CRD) preserves() bool {
	return d.internal.Spec.PreserveUnknownFields != nil && *d.internal.Spec.PreserveUnknownFields
}

// isV1 reports whether it is written in the version of the API that servers still have.
func (d *CRD) isV1() bool { return d.version == apiextensionsv1.SchemeGroupVersion.Version }

// dropped says which fields an API server would not keep.
func (d *CRD) dropped() []string {
	var dropped []string
	for _, field := range d.Unknown {
		dropped = append(dropped, field+": the API server drops it")
	}
	return dropped
}

// ShortNames are what kubectl accepts in place of the plural.
func (d *CRD) ShortNames() []string { return d.internal.Spec.Names.ShortNames }

// FileName is the name that controller-gen gives the manifest: <group>_<plural>.yaml.
func (d *CRD) FileName() string {
	return d.internal.Spec.Group + "_" + d.internal.Spec.Names.Plural + ".yaml"
}

// Group is that of the resource.
func (d *CRD) Group() string { return d.internal.Spec.Group }

// Kind is that of the objects that it defines.
func (d *CRD) Kind() string { return d.internal.Spec.Names.Kind }

// Plural is the name of the resource within its group.
func (d *CRD) Plural() string { return d.internal.Spec.Names.Plural }

// Versions are the names of its versions, in its order.
func (d *CRD) Versions() []string {
	var names []string
	for _, version := range d.internal.Spec.Versions {
		names = append(names, version.Name)
	}
	return names
}

// Storage is the version that objects are stored in; empty where there is none.
func (d *CRD) Storage() string {
	return strings.Join(storageVersions(d.internal), "")
}

// Converts reports whether a webhook converts between its versions.
func (d *CRD) Converts() bool {
	conversion := d.internal.Spec.Conversion
	return conversion != nil && conversion.Strategy == apiextensions.WebhookConverter
}

// Structural is the schema by which an API server prunes objects in a version.
func (d *CRD) Structural(version string) (*structuralschema.Structural, error) {
	if d.preserves() {
		return &structuralschema.Structural{
			Extensions: structuralschema.Extensions{XPreserveUnknownFields: true},
		}, nil
	}
	if !slices.Contains(d.Versions(), version) {
		return nil, fmt.Errorf("read the schema of %s: it has no version %s", d.From, version)
	}
	validation, err := apiextensions.GetSchemaForVersion(d.internal, version)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", d.From, err)
	}
	if validation == nil || validation.OpenAPIV3Schema == nil {
		return &structuralschema.Structural{}, nil
	}
	structural, err := structuralschema.NewStructural(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s in version %s: %w", d.From, version, err)
	}
	return structural, nil
}

// FromCluster reports whether it was read from a cluster, and bears what the API server has given it.
func (d *CRD) FromCluster() bool {
	return d.internal.ResourceVersion != "" || d.internal.UID != ""
}

// Find reads the CRD of a kind in a file, in the form that CRDs takes.
func Find(from, file, group, kind string) (*CRD, error) {
	texts, err := CRDs(from, file)
	if err != nil {
		return nil, err
	}
	for _, text := range texts {
		d, err := Parse(from, []byte(text))
		if err != nil {
			return nil, err
		}
		if d.Group() == group && d.Kind() == kind {
			return d, nil
		}
	}
	return nil, fmt.Errorf("read %s: it has no %s for %s in %s", from, Kind, kind, group)
}

// CRDs returns the text of each CustomResourceDefinition in a file as a document of its own, in YAML. Other objects are
// left out.
func CRDs(from, file string) ([]string, error) {
	var found []string
	for _, part := range split(strings.ReplaceAll(file, "\r\n", "\n")) {
		if !isContent(part) {
			continue
		}
		texts, err := crdTexts(from, part)
		if err != nil {
			return nil, err
		}
		found = append(found, texts...)
	}
	return found, nil
}

// crdTexts are the CRDs of one document. One that is the whole of it keeps every byte, unless it is JSON.
func crdTexts(from, part string) ([]string, error) {
	d := &document{lines: strings.Split(part, "\n")}
	var whole map[string]any // the parser stops without an error behind the braces of an action
	if err := cmp.Or(yaml.Unmarshal([]byte(part), &whole), d.parse()); err != nil {
		return nil, unreadable(from, part, fmt.Errorf("read %s: %w", from, err))
	}
	nodes, err := crdsIn(from, d.root)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, node := range nodes {
		if node == d.root && !isJSON(part) {
			return []string{part}, nil
		}
		text, err := inBlocks(node)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}
