// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests that are generated from the API types.
//
// It owns the files in crd/, which `make generate` writes, and nothing else.
package config

import "embed"

// CRDs are the CustomResourceDefinitions of migration.k8s.io, one YAML file each, in the folder "crd".
//
//go:embed crd/*.yaml
var CRDs embed.FS
