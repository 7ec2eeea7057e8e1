// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// roster collects what is known of each server that may write a resource.
type roster struct {
	list  []Server
	known []schema.GroupVersionKind
}

// at returns the server of that ID.
func (r *roster) at(id string) *Server {
	i := slices.IndexFunc(r.list, func(s Server) bool { return s.ID == id })
	if i < 0 {
		i = len(r.list)
		r.list = append(r.list, Server{ID: id})
	}
	return &r.list[i]
}

// show adds the hash that a server shows. If a server changed its hash during the look, it keeps the first; Verdict.Hashes
// contains both.
func (r *roster) show(s *Server, hash string) {
	if s.Hash == "" && hash != "" {
		s.Hash, s.Version = hash, readable(hash, r.known)
	}
}

// servers returns the processes that may write the target, each with the hash that it shows, sorted by ID.
func (f findings) servers() []Server {
	r := &roster{known: candidates(f.target, f.crd)}
	if f.target.Origin == migrate.Aggregated {
		f.addProcesses(r)
	} else {
		f.addKubeAPIServers(r)
	}
	f.addUncertain(r)
	f.addAnonymous(r)
	for _, d := range f.declarations {
		for _, e := range d.Entries {
			s := r.at(e.Server)
			s.Declared = true
			r.show(s, e.Hash(f.target.Kind))
			if s.Hash == "" && !s.Answered { // no server serves this kind
				s.Version = e.Version
			}
		}
	}
	slices.SortFunc(r.list, func(a, b Server) int { return strings.Compare(a.ID, b.ID) })
	return r.list
}

// own returns the answers of servers that were asked one by one: over connections of their own, or else at their own
// addresses.
func (f findings) own() []answer {
	var list []answer
	for _, r := range f.reports {
		if r.shared {
			return r.answers
		}
		for _, a := range r.answers {
			if !a.anonymous {
				list = append(list, a)
			}
		}
	}
	return list
}

// addressesOf returns the own addresses, sorted, at which API servers have shown that they write the version of a hash.
// There are none for an aggregated resource: its requests go through the kube-apiservers, which do not encode it.
func (f findings) addressesOf(hash string) []string {
	var list []string
	for _, a := range f.own() {
		if f.target.Origin != migrate.Aggregated && a.address != "" && a.served && a.hash == hash {
			list = append(list, a.address)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// addKubeAPIServers adds the holders of Leases, and addresses that are not known to belong to a Lease. If all answers
// are equal and there are as many of them as Leases, each Lease's process is known to have given that answer.
func (f findings) addKubeAPIServers(r *roster) {
	for _, l := range f.leases.Live {
		r.at(l.Name).Process = l.Holder
	}
	own := f.own()
	same := len(own) > 0 && !slices.ContainsFunc(own, func(a answer) bool {
		return a.hash != own[0].hash ||
			a.served != own[0].served
	})
	addresses := map[string]bool{}
	for _, a := range own {
		addresses[cmp.Or(a.address, a.server)] = true
	}
	if same && len(addresses) == len(f.leases.Live) && len(f.newcomers) == 0 {
		for _, l := range f.leases.Live {
			s := r.at(l.Name)
			s.Answered = true
			r.show(s, own[0].hash)
		}
		return
	}
	for _, a := range own {
		id := f.idAt(a.address)
		if a.address == "" && len(f.leases.Live) > 1 { // over a connection of its own to an address that they share
			id = a.server
		}
		s := r.at(id)
		s.Answered = true
		r.show(s, a.hash)
	}
	for _, address := range f.endpoints.Addresses {
		if len(f.endpoints.Addresses) > len(f.leases.Live) || addresses[address] {
			r.at(f.idAt(address))
		}
	}
}

// addUncertain adds the processes that have departed and cannot be asked: they may still be writing.
func (f findings) addUncertain(r *roster) {
	for _, one := range f.absent.Uncertain {
		if one.Holder == "" {
			continue // an address without a known process
		}
		id := one.Name
		if slices.ContainsFunc(r.list, func(s Server) bool { return s.ID == id }) {
			id = one.Holder // another process has that name
		}
		r.at(id).Process = one.Holder
	}
}

// addProcesses adds the processes behind an APIService.
func (f findings) addProcesses(r *roster) {
	if f.service == nil {
		return
	}
	for _, p := range f.service.All() {
		r.at(p.Address).Process = p.String()
	}
	for _, a := range f.own() {
		s := r.at(a.address)
		s.Answered = true
		r.show(s, a.hash)
	}
}

// addAnonymous adds the answers from a shared address, one server per hash.
func (f findings) addAnonymous(r *roster) {
	seen := map[string]bool{}
	for _, report := range f.reports {
		for _, a := range report.answers {
			if !a.anonymous || seen[a.hash] {
				continue
			}
			seen[a.hash] = true
			id := a.server
			if len(seen) > 1 {
				id = fmt.Sprintf("%s, another (%d)", a.server, len(seen))
			}
			s := r.at(id)
			s.Answered = true
			r.show(s, a.hash)
		}
	}
}

// idAt returns the name of the Lease of the server that answered at an address, or the address.
func (f findings) idAt(address string) string {
	for _, s := range f.leases.Live {
		only := address == "" && len(f.leases.Live) == 1
		if (only || address != "" && s.Address == address) && !slices.Contains(f.newcomers, s.Holder) {
			return s.Name
		}
	}
	if address == "" {
		return "the server that the kubeconfig names"
	}
	return address
}
