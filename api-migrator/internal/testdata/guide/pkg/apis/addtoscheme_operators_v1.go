// Copyright 2019 The Test Operator Authors

package apis

import (
	v1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
)

func init() {
	// Register the types with the Scheme so the components can map objects to GroupVersionKinds and back
	AddToSchemes = append(AddToSchemes, v1.SchemeBuilder.AddToScheme)
}
