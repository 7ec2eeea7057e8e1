// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"testing"
	"time"
)

func TestALookIsDatedByTheClockThatShowedItsTime(t *testing.T) {
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	for name, c := range map[string]struct {
		moves            func(c *Clocks)
		look, told, want int // seconds
		unknown          bool
	}{
		"no clock was ever wrong": {look: 100, told: 101, want: 100},
		"the clock was ahead by an hour": {
			moves: func(c *Clocks) { c.Move(1, time.Hour, at(90)); c.Move(1, 0, at(120)) },
			look:  3700, told: 101, want: 100,
		},
		"the clock was behind by an hour": {
			moves: func(c *Clocks) { c.Move(1, -time.Hour, at(90)); c.Move(1, 0, at(120)) },
			look:  -3500, told: 101, want: 100,
		},
		"the clock is right again when the look is told of": {
			moves: func(c *Clocks) { c.Move(1, -time.Hour, at(90)); c.Move(1, 0, at(100)) },
			look:  -3501, told: 110, want: 99,
		},
		"another clock was wrong at that time": {
			moves: func(c *Clocks) { c.Move(1, -time.Hour, at(90)); c.Move(2, time.Minute, at(95)) },
			look:  100, told: 101, want: 100,
		},
		"two clocks may have shown that time: the earlier moment excuses more": {
			moves: func(c *Clocks) { c.Move(1, 30*time.Second, at(50)) },
			look:  100, told: 101, want: 70,
		},
		"a clock that was moved again": {
			moves: func(c *Clocks) { c.Move(1, time.Hour, at(50)); c.Move(1, 2*time.Hour, at(90)) },
			look:  7300, told: 101, want: 100,
		},
		"a record that is read long after its look": {
			moves: func(c *Clocks) { c.Move(1, time.Hour, at(50)); c.Move(1, 0, at(200)) },
			look:  3700, told: 1000, want: 100,
		},
		"no clock has ever shown that time": {look: 3700, told: 101, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			var clocks Clocks
			if c.moves != nil {
				c.moves(&clocks)
			}
			want := at(c.want)
			if c.unknown {
				want = time.Time{}
			}
			if got := clocks.Began("widgets", at(c.look), at(c.told)); !got.Equal(want) {
				t.Errorf("the look began at %v, want %v", got, want)
			}
			if got := clocks.Began("widgets", at(c.look), at(c.told+100_000)); !got.Equal(want) {
				t.Errorf("told of again, the look began at %v, want %v as before", got, want)
			}
		})
	}
}
