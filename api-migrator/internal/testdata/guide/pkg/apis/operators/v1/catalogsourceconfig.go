// Copyright 2019 The Test Operator Authors

package v1

import (
	"strings"
)

// CSCFinalizer is set on objects whose catalog has to be removed.
const CSCFinalizer = "finalizer.catalogsourceconfigs.operators.example.com"

// EnsureGVK sets the group, version and kind, which clients drop from what they read.
func (c *CatalogSourceConfig) EnsureGVK() {
	c.SetGroupVersionKind(SchemeGroupVersion.WithKind(CatalogSourceConfigKind))
}

// EnsureFinalizer makes sure that the object carries the finalizer.
func (c *CatalogSourceConfig) EnsureFinalizer() {
	ensureFinalizer(&c.ObjectMeta, CSCFinalizer)
}

// PackageList takes Packages apart.
func (s *CatalogSourceConfigSpec) PackageList() []string {
	return splitPackages(s.Packages)
}

// splitPackages drops what is empty.
func splitPackages(list string) []string {
	var packages []string
	for _, name := range strings.Split(list, ",") { // commas only
		if name = strings.TrimSpace(name); name != "" {
			packages = append(packages, name)
		}
	}
	return packages
}
