// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package agreement_test looks at real API servers, one and several, of Kubernetes and behind an APIService, with
// internal/agreement.
package agreement_test

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

var (
	deviceClasses = migrate.Target{
		Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
		Kind:     "DeviceClass", Origin: migrate.BuiltIn,
	}
	widgets = migrate.Target{
		Resource: schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"},
		Kind:     "Widget", Origin: migrate.Custom, Namespaced: true,
	}
)

func hashOf(t migrate.Target, version string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: t.Resource.Group, Version: version, Kind: t.Kind})
}
