// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"

	"github.com/kube-migrator/kube-migrator/migrate"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a moment relative to noon.
func at(d time.Duration) time.Time { return noon.Add(d) }

// settled is what was seen at noon of one server that started long ago and renewed two seconds ago.
func settled() seen {
	return seen{
		leases: leases{known: true, readAt: noon, live: []server{
			{holder: "a_1", created: at(-time.Hour), renewed: at(-2 * time.Second)},
		}},
		endpoints:    endpoints{known: true, addresses: []string{"192.0.2.11:6443"}, changed: at(-time.Hour)},
		restartsSeen: true,
	}
}

func TestSinceIsTheLatestMomentThatTheEpochCanHaveBegun(t *testing.T) {
	const late = 3 * time.Second // whole seconds, and the two since the last renewal
	for name, tt := range map[string]struct {
		change func(*seen)
		want   time.Time
	}{
		"nothing happened for an hour": {func(*seen) {}, at(-time.Hour + late)},
		"a server started": {
			func(f *seen) { f.leases.live[0].created = at(-time.Minute) }, at(-time.Minute + late),
		},
		"a server entered or left": {
			func(f *seen) { f.endpoints.changed = at(-time.Minute) }, at(-time.Minute + late),
		},
		"a server crashed: it counted as live for a minute after its last renewal": {
			func(f *seen) {
				f.leases.gone = []server{{holder: "b_1", renewed: at(-5 * time.Minute)}}
			}, at(-4*time.Minute + late),
		},
		"the CRD was written": {
			func(f *seen) {
				f.crd = customResource()
				f.crd.Metadata.ManagedFields = []metav1.ManagedFieldsEntry{{
					Time:     &metav1.Time{Time: at(-time.Minute)},
					FieldsV1: pruning.NewFields(`{"f:spec":{"f:versions":{}}}`),
				}}
			}, at(-time.Minute + late),
		},
		"when the CRD was written is unknown": {func(f *seen) { f.crd = customResource() },
			noon},
		"when the servers changed is unknown": {func(f *seen) { f.endpoints.changed = time.Time{} }, noon},
		"when a server started is unknown": {func(f *seen) { f.leases.live[0].created = time.Time{} },
			noon},
		"who lives is unknown":                       {func(f *seen) { f.leases = leases{} }, noon},
		"restarts do not show":                       {func(f *seen) { f.restartsSeen = false }, noon},
		"it is never in the future":                  {func(f *seen) { f.endpoints.changed = at(time.Hour) }, noon},
		"our clock is an hour ahead of the servers'": {shiftClocks(-time.Hour), at(-time.Hour + late)},
		"our clock is an hour behind the servers'":   {shiftClocks(time.Hour), at(-time.Hour + late)},
		"the server whose clock is behind most counts": {func(f *seen) {
			f.leases.live = append(f.leases.live, server{holder: "b_1", created: at(-2 * time.Hour),
				renewed: at(-42 * time.Second)})
		}, at(-time.Hour + 43*time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			f := settled()
			tt.change(&f)
			got := memory{}.next(migrate.Epoch{}, stampsOf(f), clocksOf(f.leases), noon).since
			if diff := compare.Diff(tt.want, got); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheServersAreKnownFromLooksAtOtherResources(t *testing.T) {
	unknownStart := func() seen {
		f := settled()
		f.endpoints.changed = time.Time{} // as without an EndpointSlice
		return f
	}
	first := sighting{}.next(unknownStart(), stampsOf(unknownStart()), noon)
	restarted := unknownStart()
	restarted.leases.live[0].holder = "a_2"
	sampled := unknownStart()
	sampled.restartsSeen = false
	custom := unknownStart()
	custom.crd = customResource()
	for name, tt := range map[string]struct {
		second seen
		want   time.Time
	}{
		"the same servers, asked about another resource": {unknownStart(), noon},
		"a server restarted in between":                  {restarted, at(time.Hour)},
		"this time only samples were taken":              {sampled, at(time.Hour)},
		"a CRD written at an unknown time":               {custom, at(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			s := stampsOf(tt.second)
			s.since = first.next(tt.second, s, at(time.Hour)).since
			got := memory{}.next(migrate.Epoch{}, s, clocks{readAt: noon}, at(time.Hour)).since
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
func shiftClocks(d time.Duration) func(*seen) {
	return func(f *seen) {
		f.leases.live[0].created = f.leases.live[0].created.Add(d)
		f.leases.live[0].renewed = f.leases.live[0].renewed.Add(d)
		f.endpoints.changed = f.endpoints.changed.Add(d)
	}
}

// The agreement of servers that return to an encoding begins after the last look that saw them disagree.
func TestAnEpochStartsAfterTheLastDisagreement(t *testing.T) {
	known, e := stampsOf(settled()), migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}
	m := memory{}.next(e, known, clocks{time.Second, noon}, noon)
	m = m.disagreed(at(30 * time.Second))
	m = m.next(e, known, clocks{time.Second, at(time.Minute)}, at(time.Minute))
	if diff := compare.Diff(at(30*time.Second), m.since); diff != "" {
		t.Errorf("since (-want +got):\n%s", diff)
	}
}

func TestSinceOverSeveralLooks(t *testing.T) {
	known := stampsOf(settled())
	moved := known
	moved.moved = at(30 * time.Second)
	e := migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}
	other := migrate.Epoch{Hash: "h", Servers: []string{"a_2"}}

	for name, tt := range map[string]struct {
		second migrate.Epoch
		stamps [2]stamps
		lag    [2]time.Duration
		want   time.Time
	}{
		"the beginning of an unknown epoch is its first look": {
			e, [2]stamps{{serversUnknown: true}, {serversUnknown: true}}, [2]time.Duration{}, noon,
		},
		"the best bound of all looks counts": {
			e, [2]stamps{known, known}, [2]time.Duration{9 * time.Second, time.Second}, at(-time.Hour + 2*time.Second),
		},
		"a worse bound later changes nothing": {
			e, [2]stamps{known, known}, [2]time.Duration{time.Second, 9 * time.Second}, at(-time.Hour + 2*time.Second),
		},
		"another epoch starts over": {
			other, [2]stamps{{serversUnknown: true}, {serversUnknown: true}}, [2]time.Duration{}, at(time.Minute),
		},
		"a change that left no other trace moves the beginning of the same epoch": {
			e, [2]stamps{known, moved}, [2]time.Duration{}, at(31 * time.Second),
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory{}.next(e, tt.stamps[0], clocks{tt.lag[0], noon}, noon)
			m = m.next(tt.second, tt.stamps[1], clocks{tt.lag[1], at(time.Minute)}, at(time.Minute))
			if diff := compare.Diff(tt.want, m.since); diff != "" {
				t.Errorf("since (-want +got):\n%s", diff)
			}
		})
	}
}
