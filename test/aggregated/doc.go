// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package aggregated holds tests of kube-migrator with real aggregated API servers, which run as processes behind
// APIServices of a real cluster and store their objects in its etcd: plain on net/http, generic on k8s.io/apiserver.
//
// While a test runs, a watch of etcd compares every write with what its server publishes at that revision, and what
// etcd holds with the StorageState (I1, I2).
package aggregated
