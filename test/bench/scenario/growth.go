// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// growth: 10^3, 10^4 and 10^5 ConfigMaps of 1 KB, and 10^6 where a million is wanted: does an object cost the same, and
// does memory stay the same? Built-in objects, because custom ones take many times the memory in the API server.
func growth() Scenario {
	return Scenario{
		Name: "S8", Title: "cost as work grows", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			counts := []int{1000, 10_000, 100_000}
			if b.Million {
				counts = append(counts, 1_000_000)
			}
			if b.Quick {
				counts = []int{50, 100}
			}
			l, objects, err := b.smallConfigMaps(ctx)
			if err != nil {
				return err
			}
			const inFlight = 16
			all := []contestant.Contestant{b.Workshop.KubeMigrator(),
				contestant.CeilingOf(contestant.Best(objects.Kind), inFlight)}
			name := func(count int) string { return fmt.Sprintf("%d objects", count) }
			for i, count := range counts {
				h := heat{name: name(count), x: float64(count), objects: objects, count: count}
				if err := b.rotate(ctx, l, h, all, b.rounds(3)); err != nil {
					return err
				}
				if i == 0 {
					continue
				}
				for _, of := range []string{contestant.Ours, contestant.Ceiling} {
					b.Report.Compare(report.Rule{Name: of + ": objects/s to its own with " + name(counts[0]), Case: name(count),
						ToCase: name(counts[0]), Figure: report.ObjectsPerSecond, Of: of, Others: []string{of}, Target: 0.85})
				}
			}
			b.Report.PlotLines("S8-rate", "Built-in objects of 1 KB", "objects", "objects/s", report.ObjectsPerSecond, true)
			b.Report.PlotLines("S8-memory", "Peak resident set", "objects", "bytes", report.ClientPeakRSSBytes, true)
			return nil
		},
	}
}

// smallConfigMaps starts a lab with ConfigMaps of 1 KB: objects of which an API server can hold a million.
func (b *Bench) smallConfigMaps(ctx context.Context) (*lab.Lab, *lab.Objects, error) {
	l, err := b.lab(ctx, testbed.Options{}, lab.ConfigMaps())
	if err != nil {
		return nil, nil, err
	}
	objects, err := l.NewObjects(ctx, lab.ConfigMaps(), 1<<10)
	return l, objects, err
}
