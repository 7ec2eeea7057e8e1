// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package scenario owns what is measured: one file for each scenario, or for a few that differ in their cluster only. A
// scenario starts a lab, lets the contestants migrate the same objects in every round, in an order that rotates, and
// states what is compared with what, and the targets. docs/benchmarks.md explains each.
//
// A new scenario is a Scenario in a file of its own and a line in All. How to measure is the business of test/bench/lab, who
// takes part that of test/bench/contestant, and how figures are shown that of test/bench/report.
package scenario

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// Scenario is one thing to find out.
type Scenario struct {
	// Name is what SCENARIO= takes, Title is what it is about.
	Name, Title string
	// Promised are figures that every contestant of the scenario has.
	Promised []report.Figure
	// run measures, and states the ratios and the plots.
	run func(ctx context.Context, b *Bench) error
}

// All are the scenarios, in the order in which they run.
func All() []Scenario {
	return []Scenario{forms(), manySmall(), latency(), large(), installed(), million(), gentle(), stall(), current(),
		idle(), growth(), spread(), judge(), auditing(), guard(), watchCache()}
}

// Named returns scenarios by their names, separated by commas; all for "".
func Named(names string) ([]Scenario, error) {
	if names == "" {
		return All(), nil
	}
	var found []Scenario
	for name := range strings.SplitSeq(names, ",") {
		known := len(found)
		for _, s := range All() {
			if strings.EqualFold(s.Name, name) {
				found = append(found, s)
			}
		}
		if len(found) == known {
			return nil, fmt.Errorf("there is no scenario %q", name)
		}
	}
	return found, nil
}

// Bench is what a scenario works with.
type Bench struct {
	// Report takes the figures.
	Report   *report.Report
	Workshop *contestant.Workshop
	// Rounds is how often each contestant runs.
	Rounds int
	// Million: S4, S8 and S10b go up to a million objects, which takes hours.
	Million bool
	// Quick: few objects, to show that everything works.
	Quick    bool
	Progress io.Writer
	// RunTimeout bounds one run of one contestant.
	RunTimeout time.Duration

	labs []*lab.Lab
	also report.Figures // what the run that ended last has besides the figures that every one has
}

// Run runs a scenario and returns an error where a measurement is broken.
func (b *Bench) Run(ctx context.Context, s Scenario) error {
	defer func() {
		for _, l := range b.labs {
			l.Stop()
		}
		b.labs = nil
	}()
	if err := s.run(ctx, b); err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if problems := b.Report.Problems(s.Promised...); len(problems) > 0 {
		return fmt.Errorf("scenario %s: the measurement is broken:\n%s", s.Name, strings.Join(problems, "\n"))
	}
	return nil
}

// scale is a number for a full run, and the one for a quick run.
func (b *Bench) scale(full, quick int) int {
	if b.Quick {
		return quick
	}
	return full
}

// duration is scale for seconds.
func (b *Bench) duration(full, quick int) time.Duration {
	return time.Duration(b.scale(full, quick)) * time.Second
}

// rounds is the number of rounds, or more where a scenario needs more; a quick run has one.
func (b *Bench) rounds(atLeast int) int {
	if b.Quick {
		return 1
	}
	return max(b.Rounds, atLeast)
}

func (b *Bench) say(format string, args ...any) { fmt.Fprintf(b.Progress, format+"\n", args...) }

func (b *Bench) set(name, value string) {
	if b.Report.Settings == nil {
		b.Report.Settings = map[string]string{}
	}
	b.Report.Settings[name] = value
}

// lab starts a cluster with the resource of a kind, and measures it while it is idle. It ends with the scenario.
func (b *Bench) lab(ctx context.Context, options testbed.Options, k lab.Kind) (*lab.Lab, error) {
	options.Progress = b.Progress
	l, err := lab.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	b.labs = append(b.labs, l)
	if err := l.Prepare(ctx, k); err != nil {
		return nil, err
	}
	b.Report.IdleCPU, err = l.Idle(ctx, b.duration(5, 1))
	return l, err
}

// migrators are kube-migrator and all peers that can migrate a kind, at full speed.
func (b *Bench) migrators(ctx context.Context, k lab.Kind) ([]contestant.Contestant, error) {
	all := []contestant.Contestant{b.Workshop.KubeMigrator()}
	for _, enter := range []func(context.Context) (contestant.Contestant, error){
		b.Workshop.InTreeMigrator,
		func(ctx context.Context) (contestant.Contestant, error) {
			return b.Workshop.ExternalMigrator(ctx, false)
		},
		b.Workshop.ClusterAPIMigrator,
		b.Workshop.ByKubectl,
	} {
		c, err := enter(ctx)
		if err != nil {
			return nil, err
		}
		if !c.CustomOnly || k.CRD != "" {
			all = append(all, c)
		}
	}
	return all, nil
}

// rivals are the migrators, of which a quick run measures kube-migrator and one peer: S1 and S2 show that all of them
// work.
func (b *Bench) rivals(ctx context.Context, k lab.Kind) ([]contestant.Contestant, error) {
	all, err := b.migrators(ctx, k)
	if err != nil {
		return nil, err
	}
	return all[:b.scale(len(all), 2)], nil
}

// heat is one case: some objects that the contestants migrate in turn.
type heat struct {
	name    string
	x       float64
	objects *lab.Objects
	count   int
	// latency is added to every round trip; 0 connects clients to the server directly.
	latency time.Duration
	// bytes counts what crosses the wire.
	bytes bool
	// restarts starts the API server again before each run, unless the run is quick. Its watch cache keeps the latest
	// events, up to 100,000 of those of the last 75 seconds, and each event of an object of 200 KB takes megabytes.
	restarts bool
}

// rotate lets every contestant run once in every round, in an order that rotates.
func (b *Bench) rotate(ctx context.Context, l *lab.Lab, h heat, contestants []contestant.Contestant, rounds int) error {
	for _, c := range contestants {
		if c.Prepare != nil {
			if err := c.Prepare(ctx, l); err != nil {
				return fmt.Errorf("prepare %s: %w", c.Name, err)
			}
		}
	}
	for round := 1; round <= rounds; round++ {
		for i := range contestants {
			if err := b.once(ctx, l, h, contestants[(i+round-1)%len(contestants)], round); err != nil {
				return err
			}
		}
	}
	return nil
}

// once measures one contestant.
func (b *Bench) once(ctx context.Context, l *lab.Lab, h heat, c contestant.Contestant, round int) error {
	m, err := b.measure(ctx, l, h, c)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", h.name, c.Name, err)
	}
	measured := report.Measurement{Case: h.name, X: h.x, Contestant: c.Name, Round: round, Objects: h.count,
		Bytes: h.objects.Bytes, Figures: figures(m, h.bytes)}
	maps.Copy(measured.Figures, b.also)
	b.also = nil
	b.Report.Add(measured)
	b.say("%s: %s, round %d: %.0f objects/s, API server %.2f ms per object", h.name, c.Name, round,
		measured.Figures[report.ObjectsPerSecond], measured.Figures[report.APIServerCPUMillis])
	return nil
}

func (b *Bench) measure(ctx context.Context, l *lab.Lab, h heat, c contestant.Contestant) (lab.Measured, error) {
	ctx, cancel := context.WithTimeout(ctx, b.RunTimeout)
	defer cancel()
	if h.restarts && !b.Quick {
		if err := l.Cluster.Servers[0].Restart(ctx); err != nil {
			return lab.Measured{}, err
		}
	}
	kubeconfig, err := l.Cluster.Kubeconfig()
	if err != nil {
		return lab.Measured{}, err
	}
	var wire *lab.Wire
	if h.latency > 0 || h.bytes {
		if wire, err = l.NewWire(ctx, h.latency); err != nil {
			return lab.Measured{}, err
		}
		defer wire.Close()
		if kubeconfig, err = wire.Kubeconfig(); err != nil {
			return lab.Measured{}, err
		}
	}
	return h.objects.Measure(ctx, h.count, wire, func(ctx context.Context, watch func(int)) error {
		return c.Migrate(ctx, contestant.Run{Lab: l, Objects: h.objects, Count: h.count, Kubeconfig: kubeconfig,
			Watch: watch})
	})
}

// figures are those of a migration; bytes tells whether they were counted.
func figures(m lab.Measured, bytes bool) report.Figures {
	n := float64(m.Objects)
	millis := func(d time.Duration) float64 { return d.Seconds() * 1000 / n }
	seconds := m.End.Sub(m.Begin).Seconds()
	f := report.Figures{
		report.Seconds: seconds, report.ObjectsPerSecond: n / seconds,
		report.WholeRunSeconds:    m.Whole.End.Sub(m.Whole.Begin).Seconds(),
		report.APIServerCPUMillis: millis(m.APIServer), report.EtcdCPUMillis: millis(m.Etcd),
		report.ClientCPUMillis: millis(m.Client), report.ClientPeakRSSBytes: float64(m.ClientPeakRSSBytes),
		report.RequestsPerObject: m.Counters.Requests / n, report.WritesPerObject: m.Counters.Writes / n,
		report.AdmissionSteps: m.Counters.AdmissionSteps / n, report.TooManyRequests: m.Counters.TooMany,
	}
	if bytes {
		f[report.Sent], f[report.Received] = float64(m.Sent)/n, float64(m.Received)/n
		f[report.WholeRunSent], f[report.WholeRunReceived] = float64(m.Whole.Sent)/n, float64(m.Whole.Received)/n
	}
	return f
}

// ceiling finds the number of requests in flight at which the bare generator is fastest, and returns the generator. It
// warms the servers up, too.
func (b *Bench) ceiling(ctx context.Context, l *lab.Lab, h heat, candidates ...int) (contestant.Contestant, error) {
	form := contestant.Best(h.objects.Kind)
	if b.Quick {
		candidates = candidates[len(candidates)-1:]
	}
	best, fastest := candidates[0], 0.0
	for _, inFlight := range candidates {
		m, err := b.measure(ctx, l, h, contestant.CeilingOf(form, inFlight))
		if err != nil {
			return contestant.Contestant{}, fmt.Errorf("find the ceiling with %d in flight: %w", inFlight, err)
		}
		rate := float64(h.count) / m.End.Sub(m.Begin).Seconds()
		b.say("%s: the ceiling with %d requests in flight: %.0f objects/s", h.name, inFlight, rate)
		if rate > fastest {
			best, fastest = inFlight, rate
		}
	}
	b.set("ceiling, "+h.name, form.Name+", "+strconv.Itoa(best)+" in flight")
	return contestant.CeilingOf(form, best), nil
}

// fasterThanPeers and cheaperThanPeers compare kube-migrator with the best of the others.
func fasterThanPeers(target float64) report.Rule {
	return report.Rule{Name: "objects/s to the fastest peer's", Figure: report.ObjectsPerSecond, Of: contestant.Ours,
		Others: contestant.Peers(), Target: target}
}

func cheaperThanPeers(target float64) report.Rule {
	return report.Rule{Name: "API server CPU per object to the cheapest peer's", Figure: report.APIServerCPUMillis,
		Of: contestant.Ours, Others: contestant.Peers(), Lowest: true, Target: target, AtMost: true}
}

func nearCeiling(target float64) report.Rule {
	return report.Rule{Name: "objects/s to the ceiling's", Figure: report.ObjectsPerSecond, Of: contestant.Ours,
		Others: []string{contestant.Ceiling}, Target: target}
}

// migration are the figures that every measured migration has.
func migration() []report.Figure {
	return []report.Figure{report.ObjectsPerSecond, report.APIServerCPUMillis, report.EtcdCPUMillis,
		report.ClientCPUMillis, report.ClientPeakRSSBytes, report.RequestsPerObject, report.AdmissionSteps,
		report.TooManyRequests}
}
