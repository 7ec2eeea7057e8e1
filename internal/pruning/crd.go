// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package pruning

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// CRD contains the parts of a CustomResourceDefinition that decide what an API server drops.
type CRD struct {
	UID        types.UID
	Generation int64
	Group      string
	Versions   []Version
	// Webhook means that a webhook converts objects between versions. Otherwise only their apiVersion changes.
	Webhook bool
}

// Version is one entry of spec.versions.
type Version struct {
	Name            string
	Served, Storage bool
	Schema          *Schema
}

// Parse reads a CustomResourceDefinition of apiextensions.k8s.io/v1.
func Parse(raw []byte) (*CRD, error) {
	var d struct {
		Metadata struct {
			UID        types.UID `json:"uid"`
			Generation int64     `json:"generation"`
		} `json:"metadata"`
		Spec struct {
			Group    string `json:"group"`
			Versions []struct {
				Name    string `json:"name"`
				Served  bool   `json:"served"`
				Storage bool   `json:"storage"`
				Schema  struct {
					OpenAPI Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
			Conversion struct {
				Strategy string `json:"strategy"`
			} `json:"conversion"`
			// PreserveUnknownFields is a leftover of v1beta1, but live CRDs may have it. It keeps every field.
			PreserveUnknownFields bool `json:"preserveUnknownFields"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	c := &CRD{UID: d.Metadata.UID, Generation: d.Metadata.Generation, Group: d.Spec.Group,
		Webhook: d.Spec.Conversion.Strategy == "Webhook"}
	for _, v := range d.Spec.Versions {
		s := &v.Schema.OpenAPI
		if d.Spec.PreserveUnknownFields {
			s = Everything()
		}
		c.Versions = append(c.Versions, Version{Name: v.Name, Served: v.Served, Storage: v.Storage, Schema: s})
	}
	return c, nil
}

// Version returns a version by its name, or nil.
func (c *CRD) Version(name string) *Version {
	for i := range c.Versions {
		if c.Versions[i].Name == name {
			return &c.Versions[i]
		}
	}
	return nil
}

// Storage returns the storage version, or nil if none is marked.
func (c *CRD) Storage() *Version {
	for i := range c.Versions {
		if c.Versions[i].Storage {
			return &c.Versions[i]
		}
	}
	return nil
}

// Endpoint returns the version at which objects have to be read and written so that the API server prunes them by no
// other schema than that of the storage version: the storage version if it is served, otherwise the one that is asked
// for.
func (c *CRD) Endpoint(asked string) string {
	if s := c.Storage(); s != nil && s.Served {
		return s.Name
	}
	return asked
}
