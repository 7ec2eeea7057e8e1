// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart compares the three ways to install: it renders the Helm chart with Helm and the kustomization with
// kubectl, and holds both against the plan of kube-migrator/internal/install; and it installs, upgrades and uninstalls the chart on a
// real API server.
//
// It has no code but tests.
package chart
