// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

func TestReactionIsFoundInTheRates(t *testing.T) {
	rates := func(perSecond ...float64) (points []lab.Point) {
		for i, rate := range perSecond {
			points = append(points, lab.Point{Seconds: float64(i + 1), PerSecond: rate})
		}
		return points
	}
	for name, test := range map[string]struct {
		points          []lab.Point
		fell, recovered float64
		ok              bool
	}{
		"the rate falls in the second step and is back in the third": {
			rates(0, 500, 500, 300, 50, 0, 0, 100, 400, 460, 500), 1.5, 2.5, true},
		"the rate never falls":                {rates(0, 500, 500, 300, 300, 300, 300, 500, 500), -1, 0.5, false},
		"the rate never comes back":           {rates(0, 500, 500, 0, 0, 0, 0, 100, 100), 0.5, -1, false},
		"nothing was written before the stop": {rates(0, 1, 0, 0, 0, 0, 0, 500, 500), 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			fell, recovered, ok := reaction(test.points, 3.5, 7.5)
			if fell != test.fell || recovered != test.recovered || ok != test.ok {
				t.Errorf("got %v, %v, %v, want %v, %v, %v", fell, recovered, ok, test.fell, test.recovered, test.ok)
			}
		})
	}
}

func TestQuantilesAreInMilliseconds(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i)*time.Millisecond)
	}
	if p50, p99 := quantile(all, 0.5), quantile(all, 0.99); p50 != 51 || p99 != 100 {
		t.Errorf("p50 %v, p99 %v, want 51 and 100", p50, p99)
	}
}
