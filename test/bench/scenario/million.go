// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"

	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// million: 10^6 built-in objects of 1 KB next to 10^4, and once more with a kill in the middle. Without --million it is
// a tenth of them.
func million() Scenario {
	return Scenario{
		Name: "S4", Title: "a million objects, and a kill in the middle",
		Promised: []report.Figure{report.ObjectsPerSecond, report.APIServerCPUMillis, report.RequestsPerObject},
		run: func(ctx context.Context, b *Bench) error {
			few, many := b.scale(10_000, 50), b.scale(b.many(), 300)
			var flags []string
			if b.Quick {
				flags = []string{"--max-rate=200"} // or it is over before it can be killed
			}
			l, objects, err := b.smallConfigMaps(ctx)
			if err != nil {
				return err
			}
			small := heat{name: fmt.Sprintf("%d objects", few), x: float64(few), objects: objects, count: few}
			large := heat{name: fmt.Sprintf("%d objects", many), x: float64(many), objects: objects, count: many}
			killed := heat{name: large.name + ", killed in the middle", x: large.x, objects: objects, count: many}
			for round := 1; round <= b.rounds(1); round++ {
				for _, h := range []heat{small, large} {
					if err := b.once(ctx, l, h, b.Workshop.KubeMigrator(flags...), round); err != nil {
						return err
					}
				}
				if err := b.once(ctx, l, killed, b.Workshop.Killed(flags...), round); err != nil {
					return err
				}
				last := b.Report.Measurements[len(b.Report.Measurements)-1].Figures
				delete(last, report.ClientPeakRSSBytes) // it is the sum of two processes of which only one lives
			}
			compare := func(h, to heat, name string, figure report.Figure, target float64, digits int, atMost bool) {
				b.Report.Compare(report.Rule{Name: name, Case: h.name, ToCase: to.name, Figure: figure, Of: contestant.Ours,
					Others: []string{contestant.Ours}, Target: target, AtMost: atMost, Digits: digits})
			}
			compare(large, small, "objects/s to those with "+small.name, report.ObjectsPerSecond, 0.9, 0, false)
			compare(large, small, "peak resident set to that with "+small.name, report.ClientPeakRSSBytes, 1.1, 0, true)
			again := 0.0 // as many objects as a checkpoint is old, up to a page of 500, are written again
			if b.Million {
				again = 1.001
			}
			compare(killed, large, "writes to those without a kill", report.WritesPerObject, again, 4, true)
			compare(killed, large, "requests to those without a kill", report.RequestsPerObject, again, 4, true)
			return nil
		},
	}
}

// many is the number of objects where a million is meant.
func (b *Bench) many() int {
	if b.Million {
		return 1_000_000
	}
	return 100_000
}
