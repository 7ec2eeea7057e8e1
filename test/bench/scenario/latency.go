// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// latency: many small custom resources where a round trip between client and API server takes 0, 5 and 30 ms more, and
// with an etcd that syncs to disk.
func latency() Scenario {
	const direct = "0 ms"
	return Scenario{
		Name: "S1b", Title: "small custom resources over a network with latency, and with an etcd that syncs to disk",
		Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			near, err := newPlace(ctx, b, testbed.Options{})
			if err != nil {
				return err
			}
			distances := []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond}
			for _, added := range distances[:b.scale(len(distances), 2)] {
				count := b.scale(5000, 50)
				if added > 10*time.Millisecond {
					count = b.scale(2000, 50) // a peer that waits for each answer takes minutes
				}
				if err := near.measure(ctx, b, fmt.Sprintf("%d ms", added.Milliseconds()), added, count); err != nil {
					return err
				}
			}
			near.lab.Stop()
			durable, err := newPlace(ctx, b, testbed.Options{Fsync: true})
			if err != nil {
				return err
			}
			if err := durable.measure(ctx, b, "etcd syncs to disk", 0, b.scale(5000, 50)); err != nil {
				return err
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

// place is a cluster that is measured from several distances.
type place struct {
	lab     *lab.Lab
	objects *lab.Objects
}

func newPlace(ctx context.Context, b *Bench, options testbed.Options) (p place, err error) {
	if p.lab, err = b.lab(ctx, options, lab.Widgets()); err != nil {
		return p, err
	}
	p.objects, err = p.lab.NewObjects(ctx, lab.Widgets(), 1<<10)
	return p, err
}

func (p place) measure(ctx context.Context, b *Bench, name string, added time.Duration, count int) error {
	all, err := b.rivals(ctx, p.objects.Kind)
	if err != nil {
		return err
	}
	h := heat{name: name, x: float64(added.Milliseconds()), objects: p.objects, count: count, latency: added}
	ceiling, err := b.ceiling(ctx, p.lab, h, 16, 128, 32, 64)
	if err != nil {
		return err
	}
	return b.rotate(ctx, p.lab, h, append(all, ceiling), b.rounds(3))
}
