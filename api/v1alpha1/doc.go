// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API group migration.k8s.io/v1alpha1 of kube-migrator.
//
// A StorageVersionMigration asks for a migration of one resource and reports on it. A StorageState records in which
// versions the objects of one resource may be stored. A StorageVersion lets API servers publish the version that they
// store.
//
// The package owns the Go types and their constants; the CustomResourceDefinitions in config/crd are generated from its
// markers. It makes no decisions. Objects that were written for kube-storage-version-migrator are valid here, and no
// field of theirs is lost. Comments of types and fields wrap at 76 columns, because kubectl explain prints their line
// breaks.
//
// +kubebuilder:object:generate=true
// +groupName=migration.k8s.io
package v1alpha1
