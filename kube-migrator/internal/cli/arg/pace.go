// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package arg

// The bounds of the load unless a flag says otherwise. On a small control plane, with two processors for etcd, the API
// server and everything else, other clients hardly notice a migration within these bounds ("Where the default bounds
// come from" in docs/benchmarks.md). Without them a migration is four times as fast there, and everyone notices it.
const (
	// DefaultRate is in objects per second.
	DefaultRate = 120
	// DefaultInFlight is in requests.
	DefaultInFlight = 2
)
