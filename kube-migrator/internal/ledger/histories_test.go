// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !long

package ledger

// histories is how many are played; more with the build tag "long".
const histories = 100_000
