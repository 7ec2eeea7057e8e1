// Copyright 2019 The Test Operator Authors

// +k8s:deepcopy-gen=package,register

// Package v1 contains API Schema definitions for the operators v1 API group
// +groupName=operators.example.com
package v1
