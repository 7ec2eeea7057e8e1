// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// uncached is the contestant of an API server that has no watch cache for the resource.
const uncached = contestant.Ceiling + ", no watch cache"

// watchCache: what the requests of a migration cost an API server with and without a watch cache for the resource. With
// it, the server carries out each rewrite of a stale object twice (docs/upstream/double-pass.md).
func watchCache() Scenario {
	return Scenario{
		Name: "watch-cache", Title: "the cost of the watch cache in a migration", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			count := b.scale(5000, 100)
			kinds := []lab.Kind{lab.Widgets(), lab.ConfigMaps()}
			off := "--watch-cache-sizes=" + kinds[0].FullName() + "#0," + kinds[1].FullName() + "#0"
			// Two clusters: a server that has just been restarted would be measured cold.
			with, err := b.lab(ctx, testbed.Options{}, kinds[0])
			if err != nil {
				return err
			}
			without, err := b.lab(ctx, testbed.Options{Flags: []string{off}}, kinds[0])
			if err != nil {
				return err
			}
			for _, k := range kinds {
				if err := b.withAndWithout(ctx, with, without, k, count); err != nil {
					return err
				}
			}
			others := []string{contestant.Ceiling}
			b.Report.Compare(
				report.Rule{Name: "objects/s without the watch cache to those with it", Figure: report.ObjectsPerSecond,
					Of: uncached, Others: others},
				report.Rule{Name: "API server CPU per object without the watch cache to that with it",
					Figure: report.APIServerCPUMillis, Of: uncached, Others: others},
				report.Rule{Name: "admission steps without the watch cache to those with it", Figure: report.AdmissionSteps,
					Of: uncached, Others: others})
			b.Report.PlotBars("watch-cache", "API server CPU per object", "ms", report.APIServerCPUMillis)
			return nil
		},
	}
}

// withAndWithout measures one kind, in an order that rotates.
func (b *Bench) withAndWithout(ctx context.Context, with, without *lab.Lab, k lab.Kind, count int) error {
	type side struct {
		lab  *lab.Lab
		heat heat
		c    contestant.Contestant
	}
	const inFlight = 16
	var sides []side
	for _, of := range []struct {
		lab  *lab.Lab
		name string
	}{{with, contestant.Ceiling}, {without, uncached}} {
		objects, err := of.lab.NewObjects(ctx, k, 1<<10)
		if err != nil {
			return err
		}
		c := contestant.CeilingOf(contestant.Best(k), inFlight)
		c.Name = of.name
		h := heat{name: k.Name + " of 1 KB", objects: objects, count: count}
		if _, err := b.measure(ctx, of.lab, h, c); err != nil { // warms the server up
			return err
		}
		sides = append(sides, side{of.lab, h, c})
	}
	for round := 1; round <= b.rounds(1); round++ {
		for i := range sides {
			s := sides[(i+round)%len(sides)]
			if err := b.once(ctx, s.lab, s.heat, s.c, round); err != nil {
				return err
			}
		}
	}
	for _, s := range sides {
		if err := s.heat.objects.Remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
