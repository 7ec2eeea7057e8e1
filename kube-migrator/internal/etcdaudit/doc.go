// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdaudit reads what etcd really contains, live or from a snapshot file, and counts the objects by resource,
// stored version, encoding and encryption key.
//
// It owns the reading of etcd. It never writes to etcd and never calls an API server. It never decodes, shows or keeps
// more of a value than its envelope: the apiVersion and kind at its beginning, or the name of the key that encrypted it
// (I9).
//
// Invariants:
//   - Only the newest revision of a key counts, and a deleted key does not count.
//   - Memory depends neither on the number of keys nor on the size of values (I6): see newest for snapshots and
//     Live.Each for a running etcd.
//   - A value whose version cannot be determined is counted as such, and never as a current one (I4).
package etcdaudit
