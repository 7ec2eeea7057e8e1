// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package chaos runs an installation's processes on real API servers and etcd while it injects faults, and checks past
// the API servers whether the invariants hold. `make chaos` starts it; the tag "chaos" separates it from other tests
// (docs/reliability.md).
//
// It has three layers: plan (pure) decides which faults come, the tests of this package are the actors that carry them
// out, and judge (pure) decides what is wrong.
package chaos
