// Copyright 2019 The Test Operator Authors

// NOTE: Boilerplate only.  Ignore this file.

// Package v1 contains API Schema definitions for the operators v1 API group
// +k8s:deepcopy-gen=package,register
// +groupName=operators.example.com
package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

const (
	// CatalogSourceConfigKind is the kind that owners are referenced with.
	CatalogSourceConfigKind = "CatalogSourceConfig"
	// OperatorGroupKind is the kind that owners are referenced with.
	OperatorGroupKind = "OperatorGroup"
)

var (
	// SchemeGroupVersion is group version used to register these objects
	SchemeGroupVersion = schema.GroupVersion{Group: "operators.example.com", Version: "v1"}

	// SchemeBuilder is used to add go types to the GroupVersionKind scheme
	SchemeBuilder = &scheme.Builder{GroupVersion: SchemeGroupVersion}
)
