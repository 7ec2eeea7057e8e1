// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Origin says which kind of API server stores a resource.
type Origin string

const (
	// BuiltIn resources are compiled into kube-apiserver.
	BuiltIn Origin = "BuiltIn"
	// Custom resources are defined by a CustomResourceDefinition.
	Custom Origin = "Custom"
	// Aggregated resources are served by another API server behind an APIService.
	Aggregated Origin = "Aggregated"
)

// Target identifies the resource to rewrite.
type Target struct {
	// Resource is the endpoint to list and patch: at the storage version if it is served, else at any served version.
	Resource schema.GroupVersionResource
	// Kind is the resource's kind, "Widget".
	Kind string
	// Namespaced is whether the resource is namespaced.
	Namespaced bool
	// Origin decides which form of patch is used, and which API servers are asked about agreement. Empty means Custom,
	// whose form of patch every API server understands.
	Origin Origin
}

// GroupResource returns the target without its version.
func (t Target) GroupResource() schema.GroupResource { return t.Resource.GroupResource() }
