// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all || long

package move

// compiles says whether every outcome is generated and compiled.
const compiles = true
