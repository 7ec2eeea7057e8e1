// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package etcdaudit reads what etcd really holds, live or from a snapshot file, and counts the objects by resource,
// stored version, encoding and encryption key.
//
// It owns the reading of etcd. It never writes to etcd, never calls an API server, and never decodes, shows or keeps
// more of a value than its envelope: the apiVersion and kind in front of it, or the name of the key that encrypted it
// (I9).
//
// Invariants:
//   - only the newest revision of a key counts, and a deleted key does not;
//   - memory depends neither on the number of keys nor on the size of values (I6): see newest for snapshots and
//     Live.Each for a running etcd;
//   - a value whose version cannot be told is counted as such and is never taken for a current one (I4).
package etcdaudit
