// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"
	"time"
)

func TestAHeartbeatInTheFutureIsNotYoung(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		age  time.Duration
		want bool
	}{
		"a moment old":                    {time.Second, true},
		"older than it may be":            {10 * time.Minute, false},
		"written by a clock a bit ahead":  {-time.Second, true},
		"written by a clock hours ahead":  {-3 * time.Hour, false},
		"written by a clock hours behind": {3 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isYoung(now.Add(-test.age).Round(0), now, 5*time.Minute); got != test.want {
				t.Errorf("young: %t, want %t", got, test.want)
			}
		})
	}
}

func TestAnyHeartbeatIsYoungWhereNoLookIsToldOf(t *testing.T) {
	for _, age := range []time.Duration{0, 100 * 24 * time.Hour, -time.Hour} {
		if !isYoung(time.Now().Add(-age), time.Now(), never) {
			t.Errorf("a heartbeat of an age of %v is not", age)
		}
	}
}
