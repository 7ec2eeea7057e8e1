// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a moment relative to noon.
func at(d time.Duration) time.Time { return noon.Add(d) }

// settled is what was seen at noon of one server that started long ago and renewed two seconds ago.
func settled() Seen {
	return Seen{
		Leases: snapshot.Leases{Known: true, ReadAt: noon, Live: []snapshot.Server{
			{Holder: "a_1", Created: at(-time.Hour), Renewed: at(-2 * time.Second)},
		}},
		Endpoints:    snapshot.Endpoints{Known: true, Addresses: []string{"192.0.2.11:6443"}, Changed: at(-time.Hour)},
		RestartsSeen: true,
	}
}

func TestSinceIsTheLatestMomentThatTheEpochCanHaveBegun(t *testing.T) {
	const late = 3 * time.Second // whole seconds, and the two since the last renewal
	for name, tt := range map[string]struct {
		change func(*Seen)
		want   time.Time
	}{
		"nothing happened for an hour": {func(*Seen) {}, at(-time.Hour + late)},
		"a server started": {
			func(f *Seen) { f.Leases.Live[0].Created = at(-time.Minute) }, at(-time.Minute + late),
		},
		"a server entered or left": {
			func(f *Seen) { f.Endpoints.Changed = at(-time.Minute) }, at(-time.Minute + late),
		},
		"a server crashed: it counted as live for a minute after its last renewal": {
			func(f *Seen) {
				f.Leases.Gone = []snapshot.Server{{Holder: "b_1", Renewed: at(-5 * time.Minute)}}
			}, at(-4*time.Minute + late),
		},
		"the CRD was written": {
			func(f *Seen) {
				f.CRD = customResource()
				f.CRD.Metadata.ManagedFields = []metav1.ManagedFieldsEntry{{
					Time:     &metav1.Time{Time: at(-time.Minute)},
					FieldsV1: pruning.NewFields(`{"f:spec":{"f:versions":{}}}`),
				}}
			}, at(-time.Minute + late),
		},
		"when the CRD was written is unknown": {func(f *Seen) { f.CRD = customResource() },
			noon},
		"when the servers changed is unknown": {func(f *Seen) { f.Endpoints.Changed = time.Time{} }, noon},
		"when a server started is unknown": {func(f *Seen) { f.Leases.Live[0].Created = time.Time{} },
			noon},
		"who lives is unknown":                       {func(f *Seen) { f.Leases = snapshot.Leases{} }, noon},
		"restarts do not show":                       {func(f *Seen) { f.RestartsSeen = false }, noon},
		"it is never in the future":                  {func(f *Seen) { f.Endpoints.Changed = at(time.Hour) }, noon},
		"our clock is an hour ahead of the servers'": {shiftClocks(-time.Hour), at(-time.Hour + late)},
		"our clock is an hour behind the servers'":   {shiftClocks(time.Hour), at(-time.Hour + late)},
		"the server whose clock is behind most counts": {func(f *Seen) {
			f.Leases.Live = append(f.Leases.Live, snapshot.Server{Holder: "b_1", Created: at(-2 * time.Hour),
				Renewed: at(-42 * time.Second)})
		}, at(-time.Hour + 43*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled()
			tt.change(&f)
			got := Memory{}.Next(migrate.Epoch{}, StampsOf(f), ClocksOf(f.Leases), noon).Since
			if diff := compare.Diff(tt.want, got); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheServersAreKnownFromLooksAtOtherResources(t *testing.T) {
	unknownStart := func() Seen {
		f := settled()
		f.Endpoints.Changed = time.Time{} // as without an EndpointSlice
		return f
	}
	first := Sighting{}.Next(unknownStart(), StampsOf(unknownStart()), noon)
	restarted := unknownStart()
	restarted.Leases.Live[0].Holder = "a_2"
	sampled := unknownStart()
	sampled.RestartsSeen = false
	custom := unknownStart()
	custom.CRD = customResource()
	for name, tt := range map[string]struct {
		second Seen
		want   time.Time
	}{
		"the same servers, asked about another resource": {unknownStart(), noon},
		"a server restarted in between":                  {restarted, at(time.Hour)},
		"this time only samples were taken":              {sampled, at(time.Hour)},
		"a CRD written at an unknown time":               {custom, at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			s := StampsOf(tt.second)
			s.Since = first.Next(tt.second, s, at(time.Hour)).Since
			got := Memory{}.Next(migrate.Epoch{}, s, Clocks{readAt: noon}, at(time.Hour)).Since
			if diff := compare.Diff(tt.want, got); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}

// customResource is a CRD that does not say when it was written.
func customResource() *crd.CRD {
	d := new(crd.CRD)
	d.Metadata.UID, d.Metadata.Generation = "u", 7
	return d
}

// shiftClocks moves every time that servers recorded.
func shiftClocks(d time.Duration) func(*Seen) {
	return func(f *Seen) {
		f.Leases.Live[0].Created = f.Leases.Live[0].Created.Add(d)
		f.Leases.Live[0].Renewed = f.Leases.Live[0].Renewed.Add(d)
		f.Endpoints.Changed = f.Endpoints.Changed.Add(d)
	}
}

// The agreement of servers that return to an encoding begins after the last look that saw them disagree.
func TestAnEpochStartsAfterTheLastDisagreement(t *testing.T) {
	known, e := StampsOf(settled()), migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}
	m := Memory{}.Next(e, known, Clocks{time.Second, noon}, noon)
	m = m.Disagreed(at(30 * time.Second))
	m = m.Next(e, known, Clocks{time.Second, at(time.Minute)}, at(time.Minute))
	if diff := compare.Diff(at(30*time.Second), m.Since); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
}

func TestSinceOverSeveralLooks(t *testing.T) {
	known := StampsOf(settled())
	moved := known
	moved.moved = at(30 * time.Second)
	e := migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}
	other := migrate.Epoch{Hash: "h", Servers: []string{"a_2"}}

	for name, tt := range map[string]struct {
		second migrate.Epoch
		stamps [2]Stamps
		lag    [2]time.Duration
		want   time.Time
	}{
		"the beginning of an unknown epoch is its first look": {
			e, [2]Stamps{{serversUnknown: true}, {serversUnknown: true}}, [2]time.Duration{}, noon,
		},
		"the best bound of all looks counts": {
			e, [2]Stamps{known, known}, [2]time.Duration{9 * time.Second, time.Second}, at(-time.Hour + 2*time.Second),
		},
		"a worse bound later changes nothing": {
			e, [2]Stamps{known, known}, [2]time.Duration{time.Second, 9 * time.Second}, at(-time.Hour + 2*time.Second),
		},
		"another epoch starts over": {
			other, [2]Stamps{{serversUnknown: true}, {serversUnknown: true}}, [2]time.Duration{}, at(time.Minute),
		},
		"a change that left no other trace moves the beginning of the same epoch": {
			e, [2]Stamps{known, moved}, [2]time.Duration{}, at(31 * time.Second),
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := Memory{}.Next(e, tt.stamps[0], Clocks{tt.lag[0], noon}, noon)
			m = m.Next(tt.second, tt.stamps[1], Clocks{tt.lag[1], at(time.Minute)}, at(time.Minute))
			if diff := compare.Diff(tt.want, m.Since); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}

// For one look each server could be asked, and then no longer: the epoch does not begin again.
func TestALookWithOtherEvidenceDoesNotBeginTheEpochAgain(t *testing.T) {
	e, other := migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}, migrate.Epoch{Hash: "h", Servers: []string{"a_2"}}
	known, unknown := StampsOf(settled()), Stamps{serversUnknown: true}
	var m Memories
	var since time.Time
	look := func(sees bool, e migrate.Epoch, after time.Duration) time.Time {
		s := known
		if !sees {
			s = unknown
		}
		m, since = m.Next(sees, e, s, Clocks{time.Second, at(after)}, at(after))
		return since
	}
	if got := look(false, e, 0); !got.Equal(noon) {
		t.Errorf("the first look: %v", got)
	}
	if got := look(true, e, time.Minute); !got.Equal(at(-time.Hour + 2*time.Second)) {
		t.Errorf("one that sees restarts: %v", got)
	}
	if got := look(false, e, 2*time.Minute); !got.Equal(noon) {
		t.Errorf("one that does not: %v, want that of the first", got)
	}
	look(false, other, 3*time.Minute)
	if got := look(true, e, 4*time.Minute); got.Before(at(3 * time.Minute)) {
		t.Errorf("after a look at another epoch: %v", got)
	}
	m = m.Disagreed(at(5 * time.Minute))
	for _, sees := range []bool{true, false} {
		if got := look(sees, e, 6*time.Minute); got.Before(at(5 * time.Minute)) {
			t.Errorf("after a disagreement: %v", got)
		}
	}
}
