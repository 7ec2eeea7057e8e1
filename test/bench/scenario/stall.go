// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// stall: etcd stops for 30 s in the middle of a migration, and goes on.
func stall() Scenario {
	return Scenario{
		Name: "S6", Title: "an etcd that stops for a while",
		Promised: []report.Figure{report.SecondsToFall, report.SecondsToRecover},
		run: func(ctx context.Context, b *Bench) error {
			l, err := b.lab(ctx, testbed.Options{}, lab.Widgets())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
			if err != nil {
				return err
			}
			all, err := b.rivals(ctx, lab.Widgets())
			if err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(c contestant.Contestant) bool { return c.Name == contestant.Kubectl })
			for round := 1; round <= b.rounds(1); round++ {
				for _, c := range all {
					if c.Prepare != nil {
						if err := c.Prepare(ctx, l); err != nil {
							return err
						}
					}
					if err := b.stalled(ctx, l, objects, c, round); err != nil {
						return err
					}
				}
			}
			b.Report.PlotRates("S6-rate", "Writes per second while etcd stops", "writes/s")
			return nil
		},
	}
}

// stalled measures one contestant. A peer that fails is a result; kube-migrator must not.
func (b *Bench) stalled(ctx context.Context, l *lab.Lab, objects *lab.Objects, c contestant.Contestant, round int) error {
	count := b.scale(30_000, 1000)
	ctx, cancel := context.WithTimeout(ctx, b.RunTimeout)
	defer cancel()
	before, err := objects.MakeOld(ctx, count)
	if err != nil {
		return err
	}
	kubeconfig, err := l.Cluster.Kubeconfig()
	if err != nil {
		return err
	}
	var outage interval
	var failed error
	m, err := l.During(ctx, objects.Kind, nil, func(ctx context.Context, watch func(int)) error {
		migration := begin(ctx, c, contestant.Run{Lab: l, Objects: objects, Count: count, Kubeconfig: kubeconfig,
			Watch: watch})
		if err := migration.wrote(before); err != nil {
			return errors.Join(err, migration.stop())
		}
		outage, err = b.outage(ctx, l)
		failed = migration.wait()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	progress, err := objects.Since(ctx, before)
	if err != nil {
		return err
	}
	measured := report.Measurement{Case: "etcd stops", Contestant: c.Name, Round: round, Objects: count}
	points := lab.RateOver(m.Samples, time.Second/2)
	for _, p := range points {
		measured.Rates = append(measured.Rates, report.XY{X: p.Seconds, Y: p.PerSecond})
	}
	start := m.Samples[0].At
	fell, recovered, ok := reaction(points, outage.from.Sub(start).Seconds(), outage.to.Sub(start).Seconds())
	switch {
	case failed != nil:
		measured.Error = "it failed: " + failed.Error()
	case progress.Stored != count:
		measured.Error = fmt.Sprintf("it says that it succeeded, and %d of %d objects are stored again", progress.Stored,
			count)
	case !ok:
		measured.Error = "the rate did not fall below 20 %, or was never back at 90 %"
	default:
		measured.Figures = report.Figures{report.SecondsToFall: fell, report.SecondsToRecover: recovered}
	}
	b.Report.Add(measured)
	b.say("etcd stops: %s: %v %s", c.Name, measured.Figures, measured.Error)
	if c.Name == contestant.Ours && (failed != nil || progress.Stored != count) {
		return fmt.Errorf("%s: %s", c.Name, measured.Error)
	}
	return nil
}

// interval is when etcd was stopped.
type interval struct{ from, to time.Time }

// outage stops etcd after a while, and lets it go on.
func (b *Bench) outage(ctx context.Context, l *lab.Lab) (interval, error) {
	if err := lab.Pause(ctx, b.duration(10, 1)); err != nil {
		return interval{}, err
	}
	var stopped interval
	if err := l.Cluster.Etcd.Signal(syscall.SIGSTOP); err != nil {
		return stopped, err
	}
	stopped.from = time.Now()
	paused := lab.Pause(ctx, b.duration(30, 2))
	err := l.Cluster.Etcd.Signal(syscall.SIGCONT)
	stopped.to = time.Now()
	if err != nil {
		return stopped, err
	}
	return stopped, paused
}

// reaction tells how long after the outage began the rate was below a fifth of what it had been, and how long after its
// end it was back at nine tenths. The rate before is the median of the steps with writes.
func reaction(points []lab.Point, from, to float64) (fell, recovered float64, ok bool) {
	var before []float64
	for _, p := range points {
		if p.Seconds <= from && p.PerSecond > 10 { // more than what an idle cluster writes
			before = append(before, p.PerSecond)
		}
	}
	if len(before) == 0 {
		return 0, 0, false
	}
	slices.Sort(before)
	normal := before[len(before)/2]
	fell, recovered = -1, -1
	for _, p := range points {
		if fell < 0 && p.Seconds > from && p.PerSecond < normal/5 {
			fell = p.Seconds - from
		}
		if recovered < 0 && p.Seconds > to && p.PerSecond >= normal*9/10 {
			recovered = p.Seconds - to
		}
	}
	return fell, recovered, fell >= 0 && recovered >= 0
}
