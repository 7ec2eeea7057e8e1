// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/identity"
)

func TestProcessesOfOldReleasesAreIdentifiedByTheirStart(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	old1, old2 := Server{Holder: "a_1"}, Server{Holder: "b_1"}
	recent := Server{Holder: "c_1", Address: "192.0.2.13:6443", Created: at(-100)}
	const first, second = "192.0.2.11:6443", "192.0.2.12:6443"
	snapshot := func(live []Server, started map[string]time.Time) Snapshot {
		l := Leases{Known: true, Live: live}
		return Snapshot{Listed: l, Before: l, Leases: l, Started: started}
	}
	holders := func(s Snapshot) []string {
		s.Identify()
		if !slices.Equal(s.Before.Holders(), s.Leases.Holders()) || !s.Listed.SameServers(s.Leases) {
			t.Errorf("the Leases before and after differ: %v, %v", s.Before.Holders(), s.Leases.Holders())
		}
		for _, l := range s.Leases.Live {
			if identity.HidesRestarts(l.Holder) && l.Created.Before(at(-10)) {
				t.Errorf("%s was created at %v", l.Holder, l.Created)
			}
		}
		return s.Leases.Holders()
	}

	one := holders(snapshot([]Server{old1}, map[string]time.Time{"": at(0)}))
	if want := []string{"a_1 started 2026-01-01T12:00:00.000Z"}; !slices.Equal(one, want) {
		t.Errorf("one server: %v, want %v", one, want)
	}
	both := map[string]time.Time{first: at(0), second: at(1), recent.Address: {}}
	three := holders(snapshot([]Server{old1, old2, recent}, both))
	if three[2] != "c_1" || identity.Holder(three[0]) != "a_1" || identity.Holder(three[1]) != "b_1" {
		t.Errorf("two old servers and a recent one: %v", three)
	}
	for name, started := range map[string]map[string]time.Time{
		"the one that started first is replaced": {first: at(5), second: at(1), recent.Address: {}},
		"the other one is":                       {first: at(0), second: at(5), recent.Address: {}},
		"its machine's clock is behind":          {first: at(-5), second: at(1), recent.Address: {}},
	} {
		if now := holders(snapshot([]Server{old1, old2, recent}, started)); now[0] == three[0] || now[1] == three[1] {
			t.Errorf("%s: %v, before %v", name, now, three)
		}
	}
	if again := holders(snapshot([]Server{old1, old2, recent}, both)); !slices.Equal(again, three) {
		t.Errorf("nothing happened: %v, before %v", again, three)
	}

	published := recent // an old release that publishes its address, behind a load balancer
	if own := holders(snapshot([]Server{published}, map[string]time.Time{"connection 1": at(3)})); !identity.HidesRestarts(own[0]) {
		t.Errorf("a published address hides the start: %v", own)
	}

	s := snapshot([]Server{old1}, map[string]time.Time{"": at(5)})
	s.Inquiries = map[schema.GroupVersion]Inquiry{
		{Version: "v1"}: {Surveys: []Survey{{Answers: []Answer{{Started: at(0)}}}}},
		{Version: "v2"}: {Surveys: []Survey{{Answers: []Answer{{Started: at(5)}}}}},
	}
	if s.Identify(); !s.Moved {
		t.Error("a process that was replaced between two answers goes unnoticed")
	}
}
