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

// installed: 300 custom resources of 20 objects whose storage versions have moved, and controllers that run already.
// Time counts from the request to the last success.
func installed() Scenario {
	return Scenario{
		Name: "S3", Title: "many resources, from the request to the last success",
		Promised: []report.Figure{report.WholeRunSeconds, report.ObjectsPerSecond, report.APIServerCPUMillis,
			report.ClientPeakRSSBytes},
		run: func(ctx context.Context, b *Bench) error {
			resources, count := b.scale(300, 2), b.scale(20, 3)
			// Only an API server with an address that is not a loopback address has an EndpointSlice. Without it, every run
			// has to find out since when the API servers have been the same, which costs two seconds in each resource, and
			// which no real cluster needs.
			l, err := b.lab(ctx, testbed.Options{Isolated: true}, lab.ConfigMaps())
			if err != nil {
				return err
			}
			b.say("creating %d CRDs", resources)
			things, err := l.NewThings(ctx, resources, count)
			if err != nil {
				return err
			}
			inTree, err := b.Workshop.InTreeController(ctx)
			if err != nil {
				return err
			}
			external, err := b.Workshop.ExternalController(ctx)
			if err != nil {
				return err
			}
			all := []contestant.Installed{b.Workshop.Controller(), inTree, external, b.Workshop.ByHand()}
			name := fmt.Sprintf("%d resources of %d objects", resources, count)
			for round := 1; round <= b.rounds(1); round++ {
				for i := range all {
					c := all[(i+round-1)%len(all)]
					if err := b.migrateThings(ctx, l, things, c, name, round); err != nil {
						return fmt.Errorf("%s: %w", c.Name, err)
					}
				}
			}
			for _, of := range []string{contestant.OursInstalled, contestant.OursByHand} {
				b.Report.Compare(report.Rule{Name: of + ": objects/s to the fastest peer's", Figure: report.ObjectsPerSecond,
					Of: of, Others: []string{contestant.InTree, contestant.External}, Target: 2})
			}
			b.Report.PlotBars("S3-time", name+", request to completion", "seconds", report.WholeRunSeconds)
			return nil
		},
	}
}

// migrateThings measures one contestant.
func (b *Bench) migrateThings(ctx context.Context, l *lab.Lab, things *lab.Things, c contestant.Installed, name string,
	round int) error {
	ctx, cancel := context.WithTimeout(ctx, b.RunTimeout)
	defer cancel()
	kubeconfig, err := l.Cluster.Kubeconfig()
	if err != nil {
		return err
	}
	before, err := things.MakeOld(ctx)
	if err != nil {
		return err
	}
	fleet := contestant.Fleet{Lab: l, Things: things, Kubeconfig: kubeconfig, Ready: b.duration(60, 2)}
	var m lab.Measured
	err = c.Migrate(ctx, fleet, func(request func(context.Context, func(int)) error) (err error) {
		m, err = l.During(ctx, lab.Kind{}, nil, request)
		return err
	})
	if err != nil {
		return err
	}
	if err := things.Migrated(ctx, before); err != nil {
		return err
	}
	m.Objects = len(things.Resources) * things.Count
	f := figures(m, false)
	// These would need the first and the last write, a client that starts with the run, and one resource.
	for _, not := range []report.Figure{report.Seconds, report.ClientCPUMillis, report.RequestsPerObject,
		report.WritesPerObject} {
		delete(f, not)
	}
	b.Report.Add(report.Measurement{Case: name, Contestant: c.Name, Round: round, Objects: m.Objects, Figures: f})
	b.say("%s: %s, round %d: %.1f s", name, c.Name, round, f[report.WholeRunSeconds])
	return nil
}
