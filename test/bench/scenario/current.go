// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// current: everything is stored in the current version already. A second run proves that, and writes nothing.
func current() Scenario {
	return Scenario{
		Name: "S7", Title: "a run that finds everything current",
		Promised: []report.Figure{report.ObjectsPerSecond, report.APIServerCPUMillis, report.RequestsPerObject},
		run: func(ctx context.Context, b *Bench) error {
			count := b.scale(10_000, 200)
			l, err := b.lab(ctx, testbed.Options{}, lab.Widgets())
			if err != nil {
				return err
			}
			objects, err := l.NewObjects(ctx, lab.Widgets(), 1<<10)
			if err != nil {
				return err
			}
			migration := heat{name: "the migration", objects: objects, count: count}
			c := b.Workshop.KubeMigrator()
			for round := 1; round <= b.rounds(3); round++ {
				if err := b.once(ctx, l, migration, c, round); err != nil {
					return err
				}
				f, err := b.verify(ctx, l, objects, c, count)
				if err != nil {
					return err
				}
				b.Report.Add(report.Measurement{Case: "everything is current", Contestant: c.Name, Round: round,
					Objects: count, Bytes: objects.Bytes, Figures: f})
				b.say("everything is current: round %d: %.0f objects/s, %.0f etcd writes", round,
					f[report.ObjectsPerSecond], f[report.EtcdWrites])
			}
			b.Report.Compare(report.Rule{Name: "objects/s to the migration's", Case: "everything is current",
				ToCase: "the migration", Figure: report.ObjectsPerSecond, Of: c.Name, Others: []string{c.Name}, Target: 1.5})
			return nil
		},
	}
}

// pollPeriod is how often the API server's counters are read where etcd's revision tells nothing.
const pollPeriod = 500 * time.Millisecond

// verify lets a contestant run over objects that are current. No write can be dated by etcd's revisions, so the API
// server's count of requests is read again and again: the figures are those from the last look without a request to
// the first with all of them.
func (b *Bench) verify(ctx context.Context, l *lab.Lab, objects *lab.Objects, c contestant.Contestant,
	count int) (report.Figures, error) {
	before, err := l.Cluster.Etcd.Client().Get(ctx, objects.Key(0))
	if err != nil {
		return nil, fmt.Errorf("read etcd revision: %w", err)
	}
	kubeconfig, err := l.Cluster.Kubeconfig()
	if err != nil {
		return nil, err
	}
	start, err := l.Count(ctx, objects.Kind)
	if err != nil {
		return nil, err
	}
	begin, end := time.Now(), time.Time{}
	m, err := l.During(ctx, objects.Kind, nil, func(ctx context.Context, watch func(int)) error {
		polling, stop := context.WithCancel(ctx)
		var poll sync.WaitGroup
		poll.Go(func() {
			_ = lab.Await(polling, func() (bool, error) { // an error shows as a figure that is missing
				if err := lab.Pause(polling, pollPeriod); err != nil {
					return false, err
				}
				now, err := l.Count(polling, objects.Kind)
				switch sent := now.Writes - start.Writes; {
				case err != nil:
					return false, err
				case sent == 0:
					begin = time.Now()
				case sent >= float64(count):
					end = time.Now()
					return true, nil
				}
				return false, nil
			})
		})
		err := c.Migrate(ctx, contestant.Run{Lab: l, Objects: objects, Count: count, Kubeconfig: kubeconfig, Watch: watch})
		if err == nil {
			err = lab.Pause(ctx, 2*pollPeriod) // for the last look
		}
		stop()
		poll.Wait()
		return err
	})
	if err != nil {
		return nil, err
	}
	if end.IsZero() {
		return nil, fmt.Errorf("only %.0f of %d requests were counted", m.Counters.Writes, count)
	}
	progress, err := objects.Since(ctx, before.Header.Revision)
	if err != nil {
		return nil, err
	}
	m.Objects = count
	f := figures(m, false)
	f[report.Seconds] = end.Sub(begin).Seconds()
	f[report.ObjectsPerSecond] = float64(count) / f[report.Seconds]
	f[report.EtcdWrites] = float64(progress.Stored)
	return f, nil
}
