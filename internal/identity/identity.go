// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity names what all parts of kube-migrator have to know alike about identity Leases, the Leases by which
// API servers show that they exist: their labels, and for how long a Lease counts after a renewal. It reads and writes
// no Lease.
//
// Two rules say whether a Lease still counts. They differ on purpose:
//   - A reader that wants to know which servers exist (internal/agreement, the trigger) compares the time of the last
//     renewal with FreshFor, and ignores the duration in the Lease: kube-apiserver renews every 10 s and states an hour,
//     after which it deletes the Leases of others. By that duration, a server that crashed would hold up every
//     migration for an hour. Times of several machines are compared, so the rule may be wrong about a live server. That
//     does no harm, because a server whose Lease is no longer fresh counts as able to write until its address is silent
//     (docs/adr/0009-servers-that-leave.md).
//   - A server that removes the entries of another one (storageversion) can ask no one. It waits for the duration in the
//     Lease, by its own clock, from the moment at which it first saw the Lease as it is. The holder stops writing before
//     that, by the same duration and its own clock (docs/adr/0017-a-lease-that-closes-the-barrier.md).
package identity

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

const (
	// Label is the label of every identity Lease. Its value is the kind of server.
	Label = "apiserver.kubernetes.io/identity"
	// KubeAPIServer is the value of Label on the Leases of kube-apiservers.
	KubeAPIServer = "kube-apiserver"
	// HostLabel is the label with the name of the server's machine.
	HostLabel = "kubernetes.io/hostname"

	// FreshFor is how long after its last renewal a Lease is fresh: the first rule.
	FreshFor = time.Minute
	// UnstatedDuration is the duration of a Lease that states none, for the second rule. kube-apiserver states the same.
	UnstatedDuration = time.Hour
)

// started separates the holder of a Lease from when its process started.
const started = " started "

// Process identifies a process whose Lease keeps its holder across a restart, as those of kube-apiservers before 1.35 do,
// by its start time as well. If it is one of several processes and it is unknown which, starts are those of all of them,
// sorted.
func Process(holder string, starts []time.Time) string {
	const layout = "2006-01-02T15:04:05.000Z07:00"
	text := holder + started + starts[len(starts)-1].UTC().Format(layout)
	if len(starts) == 1 {
		return text
	}
	h := fnv.New32a()
	for _, at := range starts {
		fmt.Fprintln(h, at.UTC().Format(layout))
	}
	return fmt.Sprintf("%s or before (one of %d: %08x)", text, len(starts), h.Sum32())
}

// Holder returns the holder of the Lease of a process.
func Holder(process string) string {
	holder, _, _ := strings.Cut(process, started)
	return holder
}

// HidesRestarts reports whether the Lease of a process does not show that the process was replaced: between two looks
// there may have been others.
func HidesRestarts(process string) bool { return strings.Contains(process, started) }
