// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// large: 2,000 ConfigMaps of 200 KB from JSON to protobuf, and 500 custom resources of 200 KB.
func large() Scenario {
	return Scenario{
		Name: "S2", Title: "objects of 200 KB", Promised: append(migration(), report.Sent, report.Received),
		run: func(ctx context.Context, b *Bench) error {
			type group struct {
				kind  lab.Kind
				count int
			}
			groups := []group{{lab.ConfigMaps(), b.scale(2000, 10)}, {lab.Widgets(), b.scale(500, 10)}}
			for _, of := range groups[:b.scale(len(groups), 1)] {
				if err := largeOf(ctx, b, of.kind, of.count); err != nil {
					return err
				}
			}
			b.Report.Compare(nearCeiling(0), fasterThanPeers(3), cheaperThanPeers(0.5))
			b.Report.PlotBars("S2-rate", "Objects of 200 KB", "objects/s", report.ObjectsPerSecond)
			b.Report.PlotBars("S2-cpu", "Objects of 200 KB: API server CPU per object", "ms", report.APIServerCPUMillis)
			return nil
		},
	}
}

func largeOf(ctx context.Context, b *Bench, k lab.Kind, count int) error {
	l, err := b.lab(ctx, testbed.Options{}, k)
	if err != nil {
		return err
	}
	defer l.Stop()
	objects, err := l.NewObjects(ctx, k, 200_000)
	if err != nil {
		return err
	}
	all, err := b.migrators(ctx, k)
	if err != nil {
		return err
	}
	h := heat{name: fmt.Sprintf("%d of kind %s", count, k.Kind), objects: objects, count: count,
		restarts: true}
	ceiling, err := b.ceiling(ctx, l, h, 4, 16, 8)
	if err != nil {
		return err
	}
	all = append(all, ceiling)
	if err := b.rotate(ctx, l, h, all, b.rounds(3)); err != nil {
		return err
	}
	h.bytes = true
	return b.countBytes(ctx, l, h, all)
}
