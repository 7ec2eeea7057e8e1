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

// judge: how long the commands take that look at all CRDs of a cluster, with 10, 100 and 1,000 of them.
func judge() Scenario {
	return Scenario{
		Name: "S10", Title: "plan and check with many CRDs",
		Promised: []report.Figure{report.WholeRunSeconds, report.ClientPeakRSSBytes},
		run: func(ctx context.Context, b *Bench) error {
			counts := []int{10, 100, 1000}
			if b.Quick {
				counts = counts[:1]
			}
			for _, count := range counts {
				if err := judgeWith(ctx, b, count); err != nil {
					return err
				}
			}
			b.Report.PlotLines("S10-time", "plan and check", "CRDs", "seconds", report.WholeRunSeconds, true)
			b.Report.PlotLines("S10-memory", "Peak resident set of plan and check", "CRDs", "bytes",
				report.ClientPeakRSSBytes, true)
			return nil
		},
	}
}

// judgeWith measures with so many CRDs.
func judgeWith(ctx context.Context, b *Bench, count int) error {
	l, err := b.lab(ctx, testbed.Options{}, lab.ConfigMaps())
	if err != nil {
		return err
	}
	defer l.Stop()
	if err := l.Cluster.DefineThings(ctx, count, 2000); err != nil {
		return err
	}
	kubeconfig, err := l.Cluster.Kubeconfig()
	if err != nil {
		return err
	}
	// The API server sends 404 for the newest CRDs for a moment.
	if err := lab.Pause(ctx, b.duration(30, 2)); err != nil {
		return err
	}
	for round := 1; round <= b.rounds(3); round++ {
		for _, command := range []string{"plan", "check"} {
			m, err := l.During(ctx, lab.Kind{}, nil, func(ctx context.Context, watch func(int)) error {
				err := contestant.Finish(ctx, l, watch, b.Workshop.Binary(), command, "--kubeconfig="+kubeconfig)
				if code := contestant.ExitCode(err); code == 2 || code == 3 {
					return nil // there is work left, or something cannot be determined: an answer
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s with %d CRDs: %w", command, count, err)
			}
			b.Report.Add(report.Measurement{Case: fmt.Sprintf("%d CRDs", count), X: float64(count),
				Contestant: "kube-migrator " + command, Round: round, Figures: report.Figures{
					report.WholeRunSeconds:    m.Whole.End.Sub(m.Whole.Begin).Seconds(),
					report.ClientPeakRSSBytes: float64(m.ClientPeakRSSBytes),
				}})
			b.say("%d CRDs: %s: %.1f s", count, command, m.Whole.End.Sub(m.Whole.Begin).Seconds())
		}
	}
	return nil
}
