// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Whole reports whether the look has asked every kube-apiserver, and shared whether it did so over connections of their
// own to one address.
func (s *Snapshot) Whole() (whole, shared bool) {
	for gv, i := range s.Inquiries {
		for _, one := range i.Surveys {
			if s.Services[gv] == nil && one.Evidence >= migrate.Observed {
				whole, shared = true, shared || one.Shared
			}
		}
	}
	return whole, shared
}

// HidesRestarts reports whether the identity of a process rests on when it started, and that is only assumed.
func (s *Snapshot) HidesRestarts() bool {
	return s.Assumed && slices.ContainsFunc(s.Leases.Holders(), identity.HidesRestarts)
}

// Identify makes the Leases identify processes of releases whose Leases do not show that a process was replaced: by when
// the process started. If a process was replaced during the look, the look is void.
//
// Such servers do not publish their addresses, so a Lease cannot always be told to belong to one of several: then each
// server that may be meant has another identity as soon as one of them is another process.
func (s *Snapshot) Identify() {
	starts := slices.Collect(maps.Values(s.Started))
	for _, i := range s.Inquiries {
		for _, survey := range i.Surveys {
			for _, a := range survey.Answers {
				s.Moved = s.Moved || s.Started != nil && !s.Assumed && !a.Started.IsZero() &&
					!slices.ContainsFunc(starts, a.Started.Equal)
			}
		}
	}
	for _, l := range []*Leases{&s.Listed, &s.Before, &s.Leases} {
		l.Live = identified(l.Live, s.Started)
	}
}

func identified(live []Server, started map[string]time.Time) []Server {
	var rest []time.Time
	for address, at := range started {
		if !at.IsZero() && !slices.ContainsFunc(live, func(s Server) bool { return address != "" && s.Address == address }) {
			rest = append(rest, at)
		}
	}
	slices.SortFunc(rest, time.Time.Compare)
	live = slices.Clone(live)
	for i := range live {
		s := &live[i]
		starts := rest
		if at, own := started[s.Address]; own && s.Address != "" {
			starts = []time.Time{at}
		}
		if len(starts) == 0 || starts[0].IsZero() {
			continue // its Lease shows when it started
		}
		s.Holder = identity.Process(s.Holder, starts)
		if last := starts[len(starts)-1]; last.After(s.Created) {
			s.Created = last
		}
	}
	slices.SortFunc(live, func(a, b Server) int { return strings.Compare(a.Holder, b.Holder) })
	return live
}
