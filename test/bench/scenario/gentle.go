// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// alone is the contestant of windows without a migration.
const alone = "without a migration"

// gentle: what a client of other resources sees while everything is migrated: 50 mixed requests per second, in windows
// without and with a migration in turn.
func gentle() Scenario {
	return Scenario{
		Name: "S5", Title: "what other clients see of a migration",
		Promised: []report.Figure{report.P50Millis, report.P99Millis, report.ForegroundErrors},
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
			all = append([]contestant.Contestant{b.Workshop.GentleKubeMigrator()}, all...)
			for _, c := range all {
				if c.Prepare == nil {
					continue
				}
				if err := c.Prepare(ctx, l); err != nil {
					return err
				}
			}
			g := &gentleness{bench: b, lab: l, objects: objects, count: b.scale(20_000, 1000), window: b.duration(20, 1)}
			if _, err := g.foreground(ctx); err != nil { // warms the server up
				return err
			}
			for round := 1; round <= b.rounds(5); round++ {
				for i := range all {
					if err := g.windows(ctx, all[(i+round-1)%len(all)], round); err != nil {
						return err
					}
				}
			}
			for _, c := range all {
				rule := report.Rule{Name: "p99 to that " + alone, Case: while(c), Figure: report.P99Millis, Of: c.Name,
					Others: []string{alone}, AtMost: true}
				if c.Name == contestant.OursByDefault {
					rule.Target = 1.2
				}
				b.Report.Compare(rule)
			}
			b.Report.PlotBars("S5-p99", "p99 of a client of other resources", "ms", report.P99Millis)
			return nil
		},
	}
}

func while(c contestant.Contestant) string { return "while " + c.Name + " migrates" }

// gentleness measures windows.
type gentleness struct {
	bench   *Bench
	lab     *lab.Lab
	objects *lab.Objects
	count   int
	window  time.Duration
}

// windows measures one window without a migration, and one while a contestant migrates.
func (g *gentleness) windows(ctx context.Context, c contestant.Contestant, round int) error {
	before, err := g.objects.MakeOld(ctx, g.count)
	if err != nil {
		return err
	}
	add := func(name string, f report.Figures) {
		g.bench.Report.Add(report.Measurement{Case: while(c), Contestant: name, Round: round, Figures: f})
		g.bench.say("%s, %s: p99 %.1f ms", while(c), name, f[report.P99Millis])
	}
	f, err := g.foreground(ctx)
	if err != nil {
		return err
	}
	add(alone, f)
	kubeconfig, err := g.lab.Cluster.Kubeconfig()
	if err != nil {
		return err
	}
	migration := begin(ctx, c, contestant.Run{Lab: g.lab, Objects: g.objects, Count: g.count, Kubeconfig: kubeconfig,
		Watch: func(int) {}})
	measured, err := g.during(ctx, migration, before)
	if err := errors.Join(err, migration.stop()); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	add(c.Name, measured)
	return nil
}

// during is a window that begins once the first object has been migrated.
func (g *gentleness) during(ctx context.Context, m *migrating, before int64) (report.Figures, error) {
	if err := m.wrote(before); err != nil {
		return nil, err
	}
	first, err := g.objects.Since(ctx, before)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	f, err := g.foreground(ctx)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(begin)
	last, err := g.objects.Since(ctx, before)
	f[report.ObjectsPerSecond] = float64(last.Stored-first.Stored) / elapsed.Seconds()
	return f, err
}

// foregroundRate is how many requests a window sends per second.
const foregroundRate = 50

// foreground is one window. Requests begin on schedule, whether earlier ones have been answered or not, and their
// latency counts from there: a server that is slow for a while cannot hide that by keeping its client waiting.
func (g *gentleness) foreground(ctx context.Context) (report.Figures, error) {
	n := int(g.window.Seconds() * foregroundRate)
	took, failed := make([]time.Duration, n), make([]bool, n)
	begin := time.Now()
	var requests sync.WaitGroup
	for i := range n {
		due := begin.Add(time.Duration(i) * time.Second / foregroundRate)
		if err := lab.Pause(ctx, time.Until(due)); err != nil {
			requests.Wait()
			return nil, err
		}
		requests.Go(func() {
			status, err := g.request(ctx, i)
			failed[i] = err != nil || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
			took[i] = time.Since(due)
		})
	}
	requests.Wait()
	errors := 0
	for _, f := range failed {
		if f {
			errors++
		}
	}
	return report.Figures{report.P50Millis: quantile(took, 0.5), report.P99Millis: quantile(took, 0.99),
		report.ForegroundErrors: float64(errors)}, ctx.Err()
}

// request is number i of the mix: four reads of one object, one list, one creation, three changes, one deletion.
func (g *gentleness) request(ctx context.Context, i int) (status int, err error) {
	const path = "/api/v1/namespaces/default/configmaps"
	name := fmt.Sprintf("foreground-%d", i/10)
	body := fmt.Appendf(nil, `{"metadata":{"name":%q},"data":{"number":"%d"}}`, name, i)
	switch i % 10 {
	case 0:
		status, _, err = g.lab.Do(ctx, http.MethodPost, path, body)
	case 2, 4, 6:
		status, _, err = g.lab.Do(ctx, http.MethodPatch, path+"/"+name, body)
	case 7:
		status, _, err = g.lab.Do(ctx, http.MethodGet, path+"?limit=50", nil)
	case 9:
		status, _, err = g.lab.Do(ctx, http.MethodDelete, path+"/"+name, nil)
	default:
		status, _, err = g.lab.Do(ctx, http.MethodGet, path+"/"+name, nil)
	}
	return status, err
}

// quantile is in milliseconds.
func quantile(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Seconds() * 1000
}
