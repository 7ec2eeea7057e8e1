// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package ledger

// histories is how many are played.
const histories = 1_000_000
