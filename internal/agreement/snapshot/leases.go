// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Leases are the live servers according to the identity Leases of kube-apiservers. The zero value knows none.
type Leases struct {
	// Known means that they could be read; Why says why not.
	Known bool
	Why   string
	// Live are the servers that renewed recently, Gone those that crashed or hang, both sorted by holderIdentity.
	Live, Gone []Server
	// Uncertain are servers that have departed and cannot be asked whether they still serve.
	Uncertain []Server
	// Doubled is the name of a Lease that two processes renew.
	Doubled string
	// Alike says why the addresses do not belong to one server each, or is "".
	Alike string
	// Others are live servers of other kinds that have identity Leases, by the name of the Lease.
	Others []Server
	// ReadAt is when the Leases had been read, by this machine's clock.
	ReadAt time.Time
}

// Server is one process of a kube-apiserver. Its times are by its own clock, because it writes its Lease itself.
type Server struct {
	// Name is the name of the Lease: the same for every process on a machine. Kind is the label of the Lease.
	Name, Kind string
	// Holder is the holderIdentity. It changes with every start of a process on servers from 1.35 on. An older server
	// takes over the Lease of its predecessor and does not change the holderIdentity.
	Holder string
	// Host is the name of the machine. Address is where other servers reach it, or "" if it is not published.
	Host, Address string
	// Created is the start of the process, from 1.35 on, in whole seconds. Renewed is when it last renewed its Lease.
	Created, Renewed time.Time
	// Expired is when its Lease stopped counting as fresh, by this machine's clock; zero while it counts.
	Expired time.Time
	// Departed means that it no longer has a fresh Lease and can still write.
	Departed bool
}

// Holders identifies the live processes, sorted.
func (l Leases) Holders() []string {
	var names []string
	for _, s := range l.Live {
		names = append(names, s.Holder)
	}
	return names
}

// Names returns the names of the live kube-apiservers' Leases, sorted.
func (l Leases) Names() []string { return namesOf(l.Live) }

// Kin returns the names of the Leases of live servers of the same kind as the server with the given Lease, sorted.
func (l Leases) Kin(name string) []string {
	i := slices.IndexFunc(l.Others, func(s Server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	var same []Server
	for _, s := range l.Others {
		if s.Kind == l.Others[i].Kind {
			same = append(same, s)
		}
	}
	return namesOf(same)
}

func namesOf(servers []Server) []string {
	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// HostOf returns, for people, the name of the server with a given Lease.
func (l Leases) HostOf(name string) string {
	for _, s := range l.Live {
		if s.Name == name && s.Host != "" {
			return s.Host
		}
	}
	return name
}

// SameServers reports whether the same processes live, as far as both know.
func (l Leases) SameServers(other Leases) bool {
	return l.Known == other.Known && slices.Equal(l.Holders(), other.Holders())
}

// NameOf returns the name of the server at an address, including its host if a Lease has that address.
func (l Leases) NameOf(address string) string {
	for _, s := range l.Live {
		if s.Address == address && s.Host != "" {
			return fmt.Sprintf("%s (%s)", s.Host, address)
		}
	}
	return address
}

// Absent is what a look needs to know about departed servers.
type Absent struct {
	// Serving are those that can still write: they answer or hang. Sorted by holder.
	Serving []Server
	// Uncertain are those that may still write and cannot be asked.
	Uncertain []Server
	// Doubled is the name of a live server whose Lease another process renews as well, or "".
	Doubled string
	// Since is the latest moment at which a server that is no longer listed may have written. It is never after the end
	// of the look.
	Since time.Time
	// Until is when Since stops to move on with the time, if nothing more becomes known; zero if it does not.
	Until time.Time
}

// Any reports whether a server that is no longer listed can still write, or may.
func (a Absent) Any() bool { return len(a.Serving)+len(a.Uncertain) > 0 }

// Including adds the departed servers that can still write to the live ones.
func (l Leases) Including(a Absent) Leases {
	if l.Doubled = a.Doubled; !l.Known || !a.Any() {
		return l
	}
	l.Uncertain, l.Live = a.Uncertain, slices.Clone(l.Live)
	for _, one := range a.Serving {
		if one.Holder == "" {
			continue // an address without a Lease; see Endpoints.Including
		}
		if slices.ContainsFunc(l.Live, func(s Server) bool { return s.Name == one.Name }) {
			one.Name = one.Holder // the Lease belongs to its successor
		}
		l.Live = append(l.Live, one)
	}
	slices.SortFunc(l.Live, func(a, b Server) int { return strings.Compare(a.Holder, b.Holder) })
	return l
}
