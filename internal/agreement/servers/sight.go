// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"slices"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
)

// SightOf returns what Leases and the EndpointSlice show about the kube-apiservers.
func SightOf(l snapshot.Leases, e snapshot.Endpoints, now time.Time) Sight {
	s := Sight{Now: now, live: slices.Clone(l.Live), stale: l.Gone, clocks: ClocksOf(l), blind: !l.Known}
	if e.Known {
		s.listed, s.changed = slices.Clip(append([]string{}, e.Addresses...)), e.Changed
	}
	if len(s.live) == 1 && s.live[0].Address == "" && len(s.listed) == 1 {
		s.live[0].Address = s.listed[0]
	}
	return s
}

// SightBehind returns what a service's endpoints show about the processes behind it.
func SightBehind(s *snapshot.Service, now time.Time) Sight {
	one := Sight{Now: now}
	for _, p := range s.Processes {
		one.live = append(one.live, snapshot.Server{Name: p.Address, Holder: p.String(), Address: p.Address})
	}
	return one
}
