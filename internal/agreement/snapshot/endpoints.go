// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"time"
)

// Endpoints are the addresses of the kube-apiservers, from EndpointSlice default/kubernetes. The servers maintain it
// themselves: a server adds its address when it starts, removes it when it shuts down, and is removed within half a
// minute after a crash.
type Endpoints struct {
	// Known means that they could be read; Why says why not.
	Known bool
	Why   string
	// Addresses are host:port, sorted.
	Addresses []string
	// Changed is when the set last changed, by the clock of the server that changed it, in whole seconds. It is zero if
	// that is unknown.
	Changed time.Time
}

// Including adds the addresses of departed servers that can still write.
func (e Endpoints) Including(a Absent) Endpoints {
	if !e.Known || len(a.Serving) == 0 {
		return e
	}
	e.Addresses = slices.Clone(e.Addresses)
	for _, one := range a.Serving {
		e.Addresses = append(e.Addresses, one.Address)
	}
	slices.Sort(e.Addresses)
	e.Addresses = slices.Compact(e.Addresses)
	return e
}
