// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures kube-migrator next to other migrators and the ceiling, a bare generator of the requests
// that it sends, on one real API server and one etcd.
//
// Every contestant runs in every round, in an order that rotates from round to round, over the same objects, which are
// made old again in between. Time and CPU count from the first write to the last: where these are is read from the
// revisions that etcd gave them, so that measuring costs next to nothing and does not depend on what a contestant says
// of itself. Bytes on the wire are measured in runs of their own, through a proxy that counts.
//
// It writes a JSON file, and the same as tables to standard output. It judges nothing but whether every object was
// rewritten.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	binary, output      string
	objects, bytes      int
	rounds              int
	wireObjects         int
	largeObjects, large int
	concurrencies       []int
	only                string
	runTimeout          time.Duration
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", filepath.Join("bin", "kube-migrator"), "kube-migrator to measure")
	flags.StringVar(&o.output, "output", filepath.Join("bench", "results", "latest.json"), "JSON `file` to write")
	flags.IntVar(&o.objects, "objects", 10_000, "how many objects")
	flags.IntVar(&o.bytes, "bytes", 1024, "size of an object")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everyone runs")
	flags.IntVar(&o.wireObjects, "wire-objects", 2_000, "how many objects to count bytes on the wire with; 0 for none")
	flags.IntVar(&o.largeObjects, "large-objects", 500,
		"how many large objects to count bytes on the wire with; 0 for none")
	flags.IntVar(&o.large, "large-bytes", 200_000, "size of a large object")
	flags.StringVar(&o.only, "only", "", "contestants, separated by commas; all if empty")
	flags.DurationVar(&o.runTimeout, "run-timeout", 15*time.Minute, "bound of one contestant's run")
	concurrencies := flags.String("ceiling-concurrency", "8,16,32,64", "requests in flight to try for the ceiling")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if o.objects < 1 || o.rounds < 0 || o.wireObjects > o.objects {
		return options{}, errors.New("objects must be at least 1, and at least as many as wire-objects")
	}
	for word := range strings.SplitSeq(*concurrencies, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return options{}, fmt.Errorf("ceiling-concurrency: %q is no positive number", word)
		}
		o.concurrencies = append(o.concurrencies, n)
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "generate" {
		return generate(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer l.cluster.Stop()
	b := &bench{options: o, lab: l, progress: os.Stderr}
	if err := b.enter(ctx); err != nil {
		return err
	}
	if err := b.measureAll(ctx); err != nil {
		return err
	}
	if err := b.report.write(o.output); err != nil {
		return err
	}
	return b.report.table(os.Stdout)
}

// bench is one run of the benchmark.
type bench struct {
	options
	lab         *lab
	progress    io.Writer
	contestants []contestant
	report      Report
}

// enter builds and lists the contestants, all but the ceiling.
func (b *bench) enter(ctx context.Context) error {
	if b.wants(ours) {
		path, err := filepath.Abs(b.binary)
		if err != nil {
			return err
		}
		version, err := exec.CommandContext(ctx, path, "version").Output()
		if err != nil {
			return fmt.Errorf("run %s (make build makes it): %w", b.binary, err)
		}
		b.report.Version = strings.TrimPrefix(strings.TrimSpace(string(version)), "kube-migrator ")
		b.contestants = append(b.contestants, kubeMigrator(path))
	}
	if b.wants(inTree) {
		c, err := inTreeMigrator(ctx, b.progress)
		if err != nil {
			return err
		}
		b.contestants = append(b.contestants, c)
	}
	if b.wants(external) {
		c, err := externalMigrator(ctx, b.lab, b.progress)
		if err != nil {
			return err
		}
		b.contestants = append(b.contestants, c)
	}
	return nil
}

func (b *bench) wants(name string) bool {
	if b.only == "" {
		return true
	}
	for word := range strings.SplitSeq(b.only, ",") {
		if word == name {
			return true
		}
	}
	return false
}

func (b *bench) measureAll(ctx context.Context) (err error) {
	b.report.Time, b.report.Machine = time.Now().UTC(), machine(ctx)
	b.report.Objects, b.report.Bytes, b.report.Rounds = b.objects, b.bytes, b.rounds
	fmt.Fprintf(b.progress, "creating %d objects of %d bytes\n", b.objects, b.bytes)
	if err := b.lab.fill(ctx, "small-", b.objects, b.bytes); err != nil {
		return err
	}
	if b.report.IdleCPU, err = b.idle(ctx); err != nil {
		return err
	}
	if b.wants(ceiling) && b.rounds > 0 {
		if err := b.calibrate(ctx); err != nil {
			return err
		}
	}
	for round := 1; round <= b.rounds; round++ {
		for i := range b.contestants {
			c := b.contestants[(i+round-1)%len(b.contestants)]
			m, err := b.speed(ctx, c, round)
			if err != nil {
				return err
			}
			b.report.Speed = append(b.report.Speed, m)
		}
	}
	b.report.Ratios = ratios(b.report.Speed)
	if err := b.wire(ctx, b.wireObjects, b.bytes); err != nil || b.largeObjects == 0 {
		return err
	}
	fmt.Fprintf(b.progress, "creating %d objects of %d bytes\n", b.largeObjects, b.large)
	if err := b.lab.fill(ctx, "large-", b.largeObjects, b.large); err != nil {
		return err
	}
	return b.wire(ctx, b.largeObjects, b.large)
}

// idle measures API server and etcd while no one asks them anything.
func (b *bench) idle(ctx context.Context) (float64, error) {
	s := sampling(ctx, b.lab.cluster, nil)
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
	}
	samples, err := s.stop(ctx)
	if err != nil {
		return 0, fmt.Errorf("measure idle cluster: %w", err)
	}
	first, last := samples[0], samples[len(samples)-1]
	return (last.apiserver - first.apiserver + last.etcd - first.etcd).Seconds() / last.at.Sub(first.at).Seconds(), nil
}

// calibrate finds the concurrency of the ceiling and enters it. It warms the servers up, too.
func (b *bench) calibrate(ctx context.Context) error {
	best := 0.0
	for _, concurrency := range b.concurrencies {
		m, err := b.speed(ctx, generator(concurrency), 0)
		if err != nil {
			return err
		}
		b.report.Calibration = append(b.report.Calibration, Calibration{concurrency, m.ObjectsPerSecond})
		if m.ObjectsPerSecond > best {
			best, b.report.CeilingConcurrency = m.ObjectsPerSecond, concurrency
		}
	}
	b.contestants = append(b.contestants, generator(b.report.CeilingConcurrency))
	if b.wants(guardedCeiling) {
		path, err := filepath.Abs(b.binary)
		if err != nil {
			return err
		}
		b.contestants = append(b.contestants, guardedGenerator(path, b.report.CeilingConcurrency))
	}
	return nil
}

// speed measures one contestant over all objects.
func (b *bench) speed(ctx context.Context, c contestant, round int) (Measurement, error) {
	kubeconfig, err := b.lab.cluster.Kubeconfig()
	if err != nil {
		return Measurement{}, err
	}
	s, samples, err := b.measure(ctx, c, kubeconfig, b.objects, nil)
	if err != nil {
		return Measurement{}, err
	}
	n := float64(b.objects)
	m := Measurement{
		Contestant: c.name, Round: round, Objects: b.objects,
		Seconds: s.duration.Seconds(), ObjectsPerSecond: n / s.duration.Seconds(),
		APIServerCPUMillis: s.apiserver.Seconds() * 1000 / n, EtcdCPUMillis: s.etcd.Seconds() * 1000 / n,
		ClientCPUMillis: s.client.Seconds() * 1000 / n, ClientPeakRSSBytes: samples[len(samples)-1].clientPeakRSSBytes,
	}
	fmt.Fprintf(b.progress, "round %d: %s: %.0f objects/s, API server %.2f ms per object\n", round, c.name,
		m.ObjectsPerSecond, m.APIServerCPUMillis)
	return m, nil
}

// wire counts the bytes of every contestant over n objects of a size.
func (b *bench) wire(ctx context.Context, n, size int) error {
	if n == 0 {
		return nil
	}
	for _, c := range b.contestants {
		proxy, err := countingProxy(ctx, b.lab.cluster.Servers[0].Host())
		if err != nil {
			return err
		}
		kubeconfig, err := b.lab.cluster.KubeconfigFor(proxy.url(), "admin")
		if err != nil {
			proxy.close()
			return err
		}
		s, samples, err := b.measure(ctx, c, kubeconfig, n, proxy)
		proxy.close()
		if err != nil {
			return err
		}
		all, objects := samples[len(samples)-1], float64(n)
		w := Wire{
			Contestant: c.name, ObjectBytes: size, Objects: n,
			Sent: float64(s.sent) / objects, Received: float64(s.received) / objects,
			AllSent: float64(all.sent) / objects, AllReceived: float64(all.received) / objects,
			ClientPeakRSSBytes: all.clientPeakRSSBytes,
		}
		b.report.Wire = append(b.report.Wire, w)
		fmt.Fprintf(b.progress, "wire: %s, objects of %d bytes: %.0f bytes sent, %.0f received per object\n", c.name,
			size, w.Sent, w.Received)
	}
	return nil
}

// measure lets one contestant rewrite the first n objects and returns what happened from the first write to the last,
// and all samples.
func (b *bench) measure(ctx context.Context, c contestant, kubeconfig string, n int,
	wire *counter) (span, []sample, error) {
	ctx, cancel := context.WithTimeout(ctx, b.runTimeout)
	defer cancel()
	failed := func(err error) (span, []sample, error) {
		return span{}, nil, fmt.Errorf("measure %s: %w", c.name, err)
	}
	before, err := b.lab.restore(ctx, n)
	if err != nil {
		return failed(err)
	}
	s := sampling(ctx, b.lab.cluster, wire)
	ran := c.run(ctx, b.lab, kubeconfig, n, s.watch)
	samples, err := s.stop(ctx)
	if err := errors.Join(ran, err); err != nil {
		return failed(err)
	}
	first, last, err := b.lab.rewritten(ctx, before, n)
	if err != nil {
		return failed(err)
	}
	between, err := spanOf(samples, first, last)
	if err != nil {
		return failed(err)
	}
	return between, samples, nil
}

// write writes the report as JSON.
func (r *Report) write(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// machine describes where this runs, as far as it can be told.
func machine(ctx context.Context) Machine {
	m := Machine{Processors: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if kernel, err := exec.CommandContext(ctx, "uname", "-sr").Output(); err == nil {
		m.System = strings.TrimSpace(string(kernel)) + " " + runtime.GOARCH
	}
	m.Processor = procField("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"),
		" kB"), 10, 64); err == nil {
		m.MemoryBytes = kib * 1024
	}
	return m
}

// procField returns the value of the first line with a name, "" if there is none.
func procField(path, name string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(raw) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
