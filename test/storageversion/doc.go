// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageversion tests what package storageversion publishes on a real API server, which keeps, lists and
// refuses it like any client's.
package storageversion
