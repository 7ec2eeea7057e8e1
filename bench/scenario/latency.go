// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/bench/contestant"
	"github.com/kube-migrator/kube-migrator/bench/lab"
	"github.com/kube-migrator/kube-migrator/bench/report"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// latency: many small custom resources where a round trip between client and API server takes 0, 5 and 30 ms more, and
// with an etcd that syncs to disk.
func latency() Scenario {
	const direct = "0 ms"
	return Scenario{
		Name: "S1b", Title: "small custom resources over a network with latency, and with an etcd that syncs to disk",
		Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			for _, place := range []struct {
				name    string
				latency time.Duration
				fsync   bool
			}{
				{direct, 0, false}, {"5 ms", 5 * time.Millisecond, false}, {"30 ms", 30 * time.Millisecond, false},
				{"etcd syncs to disk", 0, true},
			} {
				count := b.scale(5000, 50)
				if place.latency > 10*time.Millisecond {
					count = b.scale(2000, 50) // a peer that waits for each answer takes minutes
				}
				if err := latencyOf(ctx, b, place.name, place.latency, place.fsync, count); err != nil {
					return err
				}
			}
			faster := func(name string, target float64) report.Rule {
				rule := fasterThanPeers(target)
				rule.Case = name
				return rule
			}
			own := func(name string) report.Rule {
				return report.Rule{Name: "objects/s to its own at " + direct, Case: name, ToCase: direct,
					Figure: report.ObjectsPerSecond, Of: contestant.Ours, Others: []string{contestant.Ours}, Target: 0.9}
			}
			b.Report.Compare(faster("5 ms", 4), faster("30 ms", 10), own("5 ms"), own("30 ms"),
				own("etcd syncs to disk"), nearCeiling(0))
			b.Report.PlotBars("S1b-rate", "Custom resources of 1 KB, by added latency", "objects/s",
				report.ObjectsPerSecond)
			return nil
		},
	}
}

func latencyOf(ctx context.Context, b *Bench, name string, added time.Duration, fsync bool, count int) error {
	l, err := b.lab(ctx, testbed.Options{Fsync: fsync}, lab.Widgets())
	if err != nil {
		return err
	}
	defer l.Stop()
	objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
	if err != nil {
		return err
	}
	all, err := b.migrators(ctx, lab.Widgets())
	if err != nil {
		return err
	}
	h := heat{name: name, x: float64(added.Milliseconds()), objects: objects, count: count, latency: added}
	ceiling, err := b.ceiling(ctx, l, h, 16, 128, 32, 64)
	if err != nil {
		return err
	}
	if err := b.rotate(ctx, l, h, append(all, ceiling), b.rounds(3)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
