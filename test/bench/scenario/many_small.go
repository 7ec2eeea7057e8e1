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

// manySmall: 1,000, 5,000 and 10,000 custom resources of 1 KB; the control plane and its client share the machine.
func manySmall() Scenario {
	return Scenario{
		Name: "S1", Title: "many small custom resources", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			counts := []int{1000, 5000, 10_000}
			if b.Quick {
				counts = []int{100}
			}
			l, err := b.lab(ctx, testbed.Options{}, lab.Widgets())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
			if err != nil {
				return err
			}
			migrators, err := b.migrators(ctx, lab.Widgets())
			if err != nil {
				return err
			}
			shipped, err := b.Workshop.ExternalMigrator(ctx, true)
			if err != nil {
				return err
			}
			migrators = append(migrators, shipped)
			for _, count := range counts {
				h := heat{name: fmt.Sprintf("%d objects", count), x: float64(count), objects: objects, count: count}
				ceiling, err := b.ceiling(ctx, l, h, 8, 32, 64, 16)
				if err != nil {
					return err
				}
				all := append([]contestant.Contestant{ceiling}, migrators...)
				if err := b.rotate(ctx, l, h, all, b.rounds(3)); err != nil {
					return err
				}
				if count == counts[len(counts)-1] {
					h.bytes, h.count = true, b.scale(2000, 100)
					if err := b.countBytes(ctx, l, h, all); err != nil {
						return err
					}
				}
			}
			b.Report.Compare(nearCeiling(0.95), fasterThanPeers(2), cheaperThanPeers(0.7))
			b.Report.PlotBars("S1-rate", "Custom resources of 1 KB", "objects/s", report.ObjectsPerSecond)
			b.Report.PlotBars("S1-cpu", "Custom resources of 1 KB: API server CPU per object", "ms",
				report.APIServerCPUMillis)
			return nil
		},
	}
}

// countBytes lets every contestant run once through a wire that counts. What stands in between costs CPU, so these runs
// count for nothing else.
func (b *Bench) countBytes(ctx context.Context, l *lab.Lab, h heat, all []contestant.Contestant) error {
	for _, c := range all {
		m, err := b.measure(ctx, l, h, c)
		if err != nil {
			return fmt.Errorf("count bytes of %s: %w", c.Name, err)
		}
		f := figures(m, true)
		b.Report.Add(report.Measurement{Case: h.name, X: h.x, Contestant: c.Name, Objects: h.count,
			Bytes: h.objects.Bytes, Figures: report.Figures{
				report.Sent: f[report.Sent], report.Received: f[report.Received],
				report.WholeRunSent: f[report.WholeRunSent], report.WholeRunReceived: f[report.WholeRunReceived],
			}})
		b.say("%s: %s: %.0f bytes sent, %.0f received per object", h.name, c.Name, f[report.Sent], f[report.Received])
	}
	return nil
}

// guard: what the admission policies of an installation, which check every write of its worker, cost the API server.
func guard() Scenario {
	return Scenario{
		Name: "guard", Title: "the cost of the guard", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			count := b.scale(5000, 100)
			l, err := b.lab(ctx, testbed.Options{}, lab.Widgets())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
			if err != nil {
				return err
			}
			h := heat{name: fmt.Sprintf("%d objects", count), objects: objects, count: count}
			const inFlight = 16
			form := contestant.Best(objects.Kind)
			all := []contestant.Contestant{contestant.CeilingOf(form, inFlight), b.Workshop.Guarded(form, inFlight)}
			if err := b.rotate(ctx, l, h, all, b.rounds(5)); err != nil {
				return err
			}
			b.Report.Compare(report.Rule{Name: "API server CPU per object with the guard to that without",
				Figure: report.APIServerCPUMillis, Of: contestant.GuardedCeiling, Others: []string{contestant.Ceiling}})
			return nil
		},
	}
}
