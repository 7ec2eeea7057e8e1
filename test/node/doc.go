// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package node proves, with the image that users run, what only a whole node shows: pods of that image under restricted
// Pod Security, with a ServiceAccount's rights and nothing else, on a real kubelet and containerd.
//
// It has tests only, which need root and a node's packages (docs/testbed.md) and are built with the tag "node"; `make
// test-node` runs them. What the API server alone shows belongs to kube-migrator/test/e2e.
package node
