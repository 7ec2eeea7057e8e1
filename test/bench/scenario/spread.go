// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// shareOfEach is what each API server of S9 has of a processor: so little that one etcd, one client and all three fit
// into two processors.
const shareOfEach = 0.3

// spread: three API servers of limited CPU on one etcd, all of them used against one of them used.
func spread() Scenario {
	return Scenario{
		Name: "S9", Title: "three API servers of limited CPU", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			const one = contestant.Ours + " at one address"
			l, err := b.lab(ctx, testbed.Options{Isolated: true, Servers: make([]testbed.ServerOptions, 3)}, lab.Widgets())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
			if err != nil {
				return err
			}
			// What API servers do when they have just started takes long with little CPU.
			if err := lab.Pause(ctx, b.duration(20, 10)); err != nil {
				return err
			}
			if err := l.LimitCPU(shareOfEach); err != nil {
				return err
			}
			b.set("processors of each API server", fmt.Sprint(shareOfEach))
			at := b.Workshop.KubeMigrator("--single-address")
			at.Name = one
			h := heat{name: "three API servers", objects: objects, count: b.scale(3000, 50)}
			all := []contestant.Contestant{b.Workshop.KubeMigrator(), at}
			for i := range all {
				countShares(b, &all[i])
			}
			if err := b.rotate(ctx, l, h, all, b.rounds(3)); err != nil {
				return err
			}
			b.Report.Compare(
				report.Rule{Name: "objects/s to those at one address", Figure: report.ObjectsPerSecond,
					Of: contestant.Ours, Others: []string{one}, Target: 2.5},
				report.Rule{Name: "patches of the server with the most to those of the one with the fewest",
					Figure: report.MostPatches, OthersFigure: report.FewestPatches, Of: contestant.Ours,
					Others: []string{contestant.Ours}, Target: 1.1, AtMost: true})
			b.Report.PlotBars("S9-rate", "Three API servers of limited CPU", "objects/s", report.ObjectsPerSecond)
			return nil
		},
	}
}

// countShares adds to the figures of a contestant how many writes each API server has answered.
func countShares(b *Bench, c *contestant.Contestant) {
	migrate := c.Migrate
	c.Migrate = func(ctx context.Context, r contestant.Run) error {
		before, err := r.Lab.WritesOfEach(ctx, r.Objects.Kind)
		if err != nil {
			return err
		}
		if err := migrate(ctx, r); err != nil {
			return err
		}
		after, err := r.Lab.WritesOfEach(ctx, r.Objects.Kind)
		for i := range after {
			after[i] -= before[i]
		}
		if err == nil {
			b.also = report.Figures{report.MostPatches: slices.Max(after), report.FewestPatches: slices.Min(after)}
		}
		return err
	}
}
