// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/identity"
)

// Shared reports whether servers were asked over connections of their own to one address.
func (s *Snapshot) Shared() bool {
	for _, i := range s.Inquiries {
		if slices.ContainsFunc(i.Surveys, func(one Survey) bool { return one.Shared }) {
			return true
		}
	}
	return false
}

// Identify makes the Leases identify processes of releases whose Leases do not show that a process was replaced: by when
// the process started. If a process was replaced during the look, the look is void.
//
// Such servers do not publish their addresses, so a Lease cannot always be told to belong to one of several: then each
// server that may be meant has another identity as soon as one of them is another process.
func (s *Snapshot) Identify() {
	for _, i := range s.Inquiries {
		for _, survey := range i.Surveys {
			for _, a := range survey.Answers {
				s.Moved = s.Moved || !a.Started.IsZero() && !slices.ContainsFunc(slices.Collect(maps.Values(s.Started)),
					a.Started.Equal)
			}
		}
	}
	if len(s.Started) > 0 {
		for _, l := range []*Leases{&s.Listed, &s.Before, &s.Leases} {
			l.Live = identified(l.Live, s.Started)
		}
	}
}

func identified(live []Server, started map[string]time.Time) []Server {
	var rest []time.Time
	for address, at := range started {
		if !slices.ContainsFunc(live, func(s Server) bool { return address != "" && s.Address == address }) {
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
		} else if s.Address != "" || len(rest) == 0 {
			continue
		}
		s.Holder, s.Created = identity.Process(s.Holder, starts), starts[len(starts)-1]
	}
	slices.SortFunc(live, func(a, b Server) int { return strings.Compare(a.Holder, b.Holder) })
	return live
}
