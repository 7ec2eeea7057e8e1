// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// CRD is a CustomResourceDefinition, from a file or from the cluster, with its schemas.
type CRD struct {
	// From names the file and document. It is empty for a CRD from the cluster.
	From string
	crd.CRD

	schemas *pruning.CRD
	// addressed means that the conversion webhook has a URL or a service.
	addressed bool
	// legacy means that the CRD is of apiextensions.k8s.io/v1beta1.
	legacy bool
	object map[string]any
}

// StandardInput is the From of a CRD that was read from a pipe.
const StandardInput = "standard input"

// Parse reads a CustomResourceDefinition of apiextensions.k8s.io/v1. One of v1beta1 is unfit.
func Parse(from string, raw []byte) (*CRD, error) {
	c := &CRD{From: from}
	var err error
	if c.schemas, err = pruning.Parse(raw); err != nil {
		return nil, err
	}
	var more struct {
		APIVersion string `json:"apiVersion"`
		Spec       struct {
			Conversion struct {
				Webhook struct {
					ClientConfig struct {
						URL     string          `json:"url"`
						Service json.RawMessage `json:"service"`
					} `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
		} `json:"spec"`
	}
	if err := errors.Join(json.Unmarshal(raw, &c.CRD), json.Unmarshal(raw, &more)); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	webhook := more.Spec.Conversion.Webhook.ClientConfig
	c.addressed = webhook.URL != "" || len(webhook.Service) > 0
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers are written as they were read
	if err := decoder.Decode(&c.object); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	name, names := c.Name(), c.Spec.Names
	switch {
	case more.APIVersion == "apiextensions.k8s.io/v1beta1" && name == crd.Name(c.Resource()):
		c.legacy = true
		return c, nil
	case more.APIVersion != "apiextensions.k8s.io/v1":
		return nil, fmt.Errorf("CustomResourceDefinition %s is of %s, want apiextensions.k8s.io/v1", name, more.APIVersion)
	case name == "" || c.Spec.Group == "" || names.Plural == "" || names.Kind == "":
		return nil, errors.New("the CustomResourceDefinition lacks one of metadata.name, spec.group, spec.names.plural " +
			"and spec.names.kind")
	case name != crd.Name(c.Resource()):
		return nil, fmt.Errorf("CustomResourceDefinition %s should be named %s", name, crd.Name(c.Resource()))
	case len(c.Spec.Versions) == 0:
		return nil, fmt.Errorf("CustomResourceDefinition %s has no spec.versions", name)
	}
	return c, nil
}

// Name returns the name of the CRD.
func (c *CRD) Name() string { return c.Metadata.Name }

// Resource returns the resource that the CRD defines.
func (c *CRD) Resource() schema.GroupResource {
	return schema.GroupResource{Group: c.Spec.Group, Resource: c.Spec.Names.Plural}
}

// Versions returns the names in spec.versions.
func (c *CRD) Versions() []string { return c.VersionNames() }

func (c *CRD) has(version string) bool { return slices.Contains(c.VersionNames(), version) }

// Defines returns whether the CRD has the version with a hash.
func (c *CRD) Defines(hash string) bool {
	return slices.ContainsFunc(c.VersionNames(), func(v string) bool {
		return storageversion.Hash(schema.GroupVersionKind{Group: c.Spec.Group, Version: v, Kind: c.Spec.Names.Kind}) == hash
	})
}

// Endpoint returns the version at which objects are read and written: the storage version if it is served, otherwise
// the first served version, otherwise "".
func (c *CRD) Endpoint() (endpoint string) {
	for _, v := range c.Spec.Versions {
		if v.Served && (endpoint == "" || v.Storage) {
			endpoint = v.Name
		}
	}
	return endpoint
}

// Webhook reports whether a webhook converts versions. Otherwise only their apiVersion changes.
func (c *CRD) Webhook() bool { return c.schemas != nil && c.schemas.Webhook }

// schema returns the schema of a version, or nil if the CRD does not have it.
func (c *CRD) schema(version string) *pruning.Schema {
	if v := c.schemas.Version(version); v != nil {
		return v.Schema
	}
	return nil
}

// File returns the file in a From like "crds.yaml, document 2", for commands. Standard input has none.
func (c *CRD) File() string {
	name, _, _ := strings.Cut(c.From, ", document ")
	if strings.Contains(name, " ") || name == "" || name == StandardInput {
		return "FILE"
	}
	return name
}

func (c *CRD) isFit() bool { return c.Unfit() == nil }

// Unfit says why no API server should be given the CRD, or returns nil.
func (c *CRD) Unfit() *refusal.Error {
	storage := 0
	for _, v := range c.Spec.Versions {
		if v.Storage {
			storage++
		}
	}
	switch diff := "kubectl diff --server-side -f " + c.File(); {
	case c.legacy:
		return refusal.New(Legacy, "api-migrator crd upgrade --diff "+c.File(),
			"it is of apiextensions.k8s.io/v1beta1, which no API server has served since Kubernetes 1.22")
	case storage != 1:
		return refusal.New(Invalid, diff, "it marks %d versions as the storage version, want 1", storage)
	case c.Webhook() && !c.addressed:
		return refusal.New(Invalid, diff, "its conversion webhook has neither a URL nor a service")
	}
	return nil
}
