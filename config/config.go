// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package config holds the manifests that are generated from the API types.
//
// It owns the CRDs in crd/. The kustomizations next to them, crd/kustomization.yml and default/, are generated from
// kube-migrator/internal/install by kube-migrator/internal/cli/cmd/manifests. `make generate` writes all of them.
package config

import "embed"

// CRDs are the CustomResourceDefinitions of migration.k8s.io, one YAML file each, in the folder "crd".
//
//go:embed crd/*.yaml
var CRDs embed.FS
