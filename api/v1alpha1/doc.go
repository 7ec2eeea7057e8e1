// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API group migration.k8s.io/v1alpha1: what is asked of kube-migrator and what it answers.
//
// It owns the Go types, their constants, and by its markers the CustomResourceDefinitions in config/crd. It decides
// nothing. Objects that were written for kube-storage-version-migrator are valid here and lose nothing.
//
// +kubebuilder:object:generate=true
// +groupName=migration.k8s.io
package v1alpha1
