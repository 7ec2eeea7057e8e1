// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Origin says which kind of API server code stores a resource.
type Origin string

const (
	// BuiltIn: compiled into kube-apiserver.
	BuiltIn Origin = "BuiltIn"
	// Custom: defined by a CustomResourceDefinition.
	Custom Origin = "Custom"
	// Aggregated: served by another API server behind an APIService.
	Aggregated Origin = "Aggregated"
)

// Target is one resource, seen as something to rewrite.
type Target struct {
	// Resource is the endpoint that is listed and patched: at the storage version where that is served, else at
	// any served version.
	Resource schema.GroupVersionResource
	// Kind is the resource's kind, "Widget".
	Kind string
	// Namespaced is whether the objects live in namespaces.
	Namespaced bool
	// Origin decides which patch is cheapest and who is asked about agreement. Empty means Custom, whose patch
	// every API server understands.
	Origin Origin
}

// GroupResource names the target without its version.
func (t Target) GroupResource() schema.GroupResource { return t.Resource.GroupResource() }
