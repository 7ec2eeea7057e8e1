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

// auditing: how long it takes to say in which version each of 10^6 keys is stored. Every tenth of them is in its old
// form. Without --million it is a tenth of them. The API server has no watch caches, which would only take memory.
func auditing() Scenario {
	return Scenario{
		Name: "S10b", Title: "audit of many keys",
		Promised: []report.Figure{report.ObjectsPerSecond, report.WholeRunSeconds, report.ClientPeakRSSBytes},
		run: func(ctx context.Context, b *Bench) error {
			count := b.scale(b.many(), 2000)
			l, err := b.lab(ctx, testbed.Options{Flags: []string{"--watch-cache=false"}}, lab.ConfigMaps())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.ConfigMaps(), 1<<10)
			if err != nil {
				return err
			}
			if err := objects.Fill(ctx, count, count/10); err != nil {
				return err
			}
			kubeconfig, err := l.Cluster.Kubeconfig()
			if err != nil {
				return err
			}
			r := contestant.Run{Lab: l, Objects: objects, Count: count, Kubeconfig: kubeconfig, Watch: func(int) {}}
			if err := b.Workshop.SaveSnapshot(ctx, r); err != nil {
				return err
			}
			all, err := b.Workshop.Auditors(ctx)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d keys", count)
			for round := 1; round <= b.rounds(3); round++ {
				for i := range all {
					if err := b.audit(ctx, r, all[(i+round-1)%len(all)], name, round); err != nil {
						return err
					}
				}
			}
			for _, of := range []string{contestant.Audit, contestant.AuditSnapshot} {
				b.Report.Compare(report.Rule{Name: of + ": keys/s to those of etcdctl and a decoder",
					Figure: report.ObjectsPerSecond, Of: of, Others: []string{contestant.EtcdctlDecode}, Target: 5},
					report.Rule{Name: of + ": keys/s to those of etcdctl alone", Figure: report.ObjectsPerSecond, Of: of,
						Others: []string{contestant.Etcdctl}})
			}
			b.Report.PlotBars("S10b-rate", "Reading all keys", "keys/s", report.ObjectsPerSecond)
			return nil
		},
	}
}

// audit measures one contestant, from its start to its end.
func (b *Bench) audit(ctx context.Context, r contestant.Run, c contestant.Contestant, name string, round int) error {
	ctx, cancel := context.WithTimeout(ctx, b.RunTimeout)
	defer cancel()
	m, err := r.Lab.During(ctx, r.Objects.Kind, nil, func(ctx context.Context, watch func(int)) error {
		r := r
		r.Watch = watch
		return c.Migrate(ctx, r)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	m.Objects = r.Count
	f := figures(m, false)
	b.Report.Add(report.Measurement{Case: name, Contestant: c.Name, Round: round, Objects: r.Count,
		Bytes: r.Objects.Bytes, Figures: report.Figures{
			report.ObjectsPerSecond: f[report.ObjectsPerSecond], report.WholeRunSeconds: f[report.WholeRunSeconds],
			report.EtcdCPUMillis: f[report.EtcdCPUMillis], report.ClientCPUMillis: f[report.ClientCPUMillis],
			report.ClientPeakRSSBytes: f[report.ClientPeakRSSBytes],
		}})
	b.say("%s: %s, round %d: %.1f s", name, c.Name, round, f[report.WholeRunSeconds])
	return nil
}
