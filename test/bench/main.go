// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures kube-migrator next to other migrators and the ceiling, a bare generator of the requests
// that it sends, on real API servers and a real etcd.
//
//	test/bench/scenario     what is measured: a file for each scenario, in the order and under the names of docs/benchmarks.md
//	test/bench/contestant   who takes part: kube-migrator, the peers, the ceiling and the forms of its requests
//	test/bench/lab          where and how: the cluster, objects that can be made old again, samples, counters, the wire
//	test/bench/report       what is published: one schema, ratios, tables, descriptions of plots; pure
//	tools/plot         draws the plots, in a module of its own
//
// Every contestant runs in every round, in an order that rotates, over the same objects, which are made old again in
// between. Time and CPU count from the first write to the last: where these are is read from the revisions that etcd
// gave them, so that measuring costs next to nothing and does not depend on what a contestant says of itself.
//
// It writes NAME.json, NAME.md and plots for each scenario. It fails where a measurement is broken: an object that is
// not stored again, a contestant that fails, a figure that is missing. It never fails because something is slow.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
	"github.com/kube-migrator/kube-migrator/test/bench/scenario"
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
	binary, output, scenarios string
	rounds                    int
	quick, million            bool
	runTimeout                time.Duration
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", filepath.Join("bin", "kube-migrator"), "kube-migrator to measure")
	flags.StringVar(&o.output, "output", filepath.Join("bin", "bench"), "`folder` for what is measured")
	flags.StringVar(&o.scenarios, "scenario", "", "scenarios, separated by commas; all if empty")
	flags.IntVar(&o.rounds, "rounds", 3, "how often every contestant runs; a scenario that needs more has more")
	flags.BoolVar(&o.quick, "quick", false, "few objects and one round: shows that everything works, measures nothing")
	flags.BoolVar(&o.million, "million", false, "S4, S8 and S10b go up to a million objects, which takes hours")
	flags.DurationVar(&o.runTimeout, "run-timeout", time.Hour, "bound of one contestant's run")
	return o, flags.Parse(args)
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case contestant.GenerateCommand:
			return contestant.Generate(ctx, args[1:])
		case contestant.DecodeCommand:
			return contestant.Decode(os.Stdin, os.Stdout)
		}
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	chosen, err := scenario.Named(o.scenarios)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kube-migrator-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	workshop, err := contestant.NewWorkshop(o.binary, dir, os.Stderr)
	if err != nil {
		return err
	}
	version, err := workshop.Version(ctx)
	if err != nil {
		return err
	}
	var broken []error
	for _, s := range chosen {
		begin := time.Now()
		r := &report.Report{
			Scenario: s.Name, Title: s.Title, Time: begin.UTC(), Machine: machine(ctx), Rounds: o.rounds, Quick: o.quick,
			Versions: map[string]string{"kube-migrator": version, "Kubernetes": string(testbed.Newest)},
		}
		b := &scenario.Bench{Report: r, Workshop: workshop, Rounds: o.rounds, Quick: o.quick, Million: o.million,
			Progress: os.Stderr, RunTimeout: o.runTimeout}
		if err := b.Run(ctx, s); err != nil {
			broken = append(broken, err)
			fmt.Fprintln(os.Stderr, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if err := write(ctx, o.output, r); err != nil {
			return err
		}
		fmt.Println(r.Markdown())
		fmt.Fprintf(os.Stderr, "scenario %s took %s\n", s.Name, time.Since(begin).Round(time.Second))
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d of %d scenarios are broken:\n%w", len(broken), len(chosen), errors.Join(broken...))
	}
	return nil
}

// write writes a report as JSON and as Markdown, and has its plots drawn.
func write(ctx context.Context, folder string, r *report.Report) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	path, err := filepath.Abs(filepath.Join(folder, r.Scenario+".json"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if err := os.WriteFile(strings.TrimSuffix(path, ".json")+".md", []byte(r.Markdown()), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	if out, err := exec.CommandContext(ctx, "go", "-C", "tools", "run", "./plot", path).CombinedOutput(); err != nil {
		return fmt.Errorf("draw plots: %w\n%s", err, out)
	}
	return nil
}

// machine describes where this runs, as far as it can be told.
func machine(ctx context.Context) report.Machine {
	m := report.Machine{Processors: runtime.NumCPU(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
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
