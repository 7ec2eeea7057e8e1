// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"testing"
	"time"
	"unsafe"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// set returns a reading of our clock as if the clock had been set forward, or back, shortly before: its wall clock
// differs, its monotonic clock does not. It relies on the layout of a time.Time that has a monotonic reading.
func set(t time.Time, by time.Duration) time.Time {
	const nanosecondBits = 30
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(by/time.Second) << nanosecondBits
	return t
}

func TestSettingOurClockChangesNoAge(t *testing.T) {
	now := time.Now()
	if moved := set(now, time.Hour); moved.Sub(now) != 0 || moved.Round(0).Sub(now.Round(0)) != time.Hour {
		t.Fatalf("the reading is not as if the clock had been set: %v, %v", now, moved)
	}
	for name, by := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour, "not at all": 0} {
		t.Run(name, func(t *testing.T) {
			// A server started 10 s before the first look, and left the EndpointSlice before; the clock is set
			// between the first look and the second.
			begun := now.Add(-10 * time.Second)
			e := migrate.Epoch{Hash: "h", Servers: []string{"a_1"}}
			s := Stamps{started: begun.Round(0), moved: begun.Round(0)}
			look := func(after, by time.Duration) (Clocks, time.Time) {
				at := now.Add(after)
				l := snapshot.Leases{ReadAt: set(at, by), Live: []snapshot.Server{{Holder: "a_1", Renewed: at.Round(0)}}}
				return ClocksOf(l), set(at, by)
			}
			first, at := look(0, 0)
			m := Memory{}.Next(e, s, first, at)
			second, again := look(5*time.Second, by)
			m = m.Next(e, s, second, again)
			if age := again.Sub(m.Since); age < 13*time.Second || age > 16*time.Second {
				t.Errorf("15 s after its beginning the epoch is %v old", age)
			}

			p, delay := Fleet{late: now.Add(time.Hour), lateStamp: s.moved, changed: s.moved}, time.Minute
			p.Note(Sight{Now: at, live: []snapshot.Server{{Holder: "a_1"}}, changed: s.moved, clocks: first}, delay)
			if left := p.quiet.Sub(again); left > delay || left < delay-16*time.Second {
				t.Errorf("15 s after it left, a server may serve for %v, with a shutdown delay of %v", left, delay)
			}
		})
	}
}

// A server whose clock was an hour behind when it started, and is right when it renews its Lease, has started later
// than its Lease says.
func TestANewEpochBeginsAfterTheLastLookAtAnother(t *testing.T) {
	now := time.Now()
	look := func(holder string, started, at time.Time) (migrate.Epoch, Stamps, Clocks, time.Time) {
		l := snapshot.Leases{ReadAt: at, Live: []snapshot.Server{{Holder: holder, Renewed: at.Round(0)}}}
		s := Stamps{started: started.Round(0), moved: started.Round(0)}
		return migrate.Epoch{Hash: "h", Servers: []string{holder}}, s, ClocksOf(l), at
	}
	m := Memory{}.Next(look("a_1", now.Add(-24*time.Hour), now))
	if age := now.Sub(m.Since); age < 23*time.Hour {
		t.Errorf("the first epoch is %v old, want a day", age)
	}
	again := now.Add(5 * time.Second)
	m = m.Next(look("a_2", now.Add(-time.Hour), again))
	if age := again.Sub(m.Since); age > 5*time.Second {
		t.Errorf("an epoch that was not there 5 s ago is %v old", age)
	}
	later := now.Add(10 * time.Second)
	m = m.Next(look("a_2", now.Add(-time.Hour), later))
	if age := later.Sub(m.Since); age > 10*time.Second || age < 5*time.Second {
		t.Errorf("an epoch that was not there 10 s ago is %v old", age)
	}
}
