// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
)

// fleetHelp is the part of a command's help that is about fleets.
const fleetHelp = `

With --contexts or --kubeconfig-dir the command asks many clusters at the same time, and shows one row for each. A cluster
that does not answer within --cluster-timeout delays no other. -o json contains the whole report of each cluster, and -o name
lists the clusters whose exit code is not 0. The exit code is the first of 130, 1, 4, 2 and 3 that any cluster has.`

// inquiry is a command about many clusters.
type inquiry struct {
	*environment
	command *cobra.Command
	options fleet.Options
	output  render.Format
	// live shows notes at once instead of in the report, because the command takes long.
	live bool
	// ask is the command for one cluster. Its answer is nil if the command ended with an error before it had one.
	ask func(ctx context.Context, env *environment) (*render.FleetAnswer, error)
	// identify returns what no other cluster has, or nothing if that is unknown. It may be nil.
	identify func(ctx context.Context, env *environment) string
}

// overFleet runs a command for every cluster that the flags select, and shows their answers. column is the header of
// the verdicts.
func (q inquiry) overFleet(f *clusters.Flags, column string) error {
	if q.output == render.HTML {
		flag := clusters.Contexts
		if q.command.Flags().Changed(clusters.KubeconfigDir) {
			flag = clusters.KubeconfigDir
		}
		return exit.Usage(q.command, fmt.Errorf("--%s and --output=html cannot be used together", flag))
	}
	lists, err := f.Select(q.command, q.kubeconfig)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(q.command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	all := slices.Concat(lists...)
	if q.errTerminal != nil {
		fmt.Fprintf(q.Err, "Asking %d clusters, %d at the same time.\n", len(all), min(len(all), f.Options.Parallel))
	}
	q.options, q.identify = f.Options, identity
	report := render.Fleet{What: "CLUSTER", Column: column, Clusters: q.askAll(ctx, all)}
	return q.show(report, exit.WorseVerdict)
}

// askAll asks clusters, and returns a row for each.
func (q inquiry) askAll(ctx context.Context, all []*clusters.Cluster) []render.FleetCluster {
	type answered struct {
		row render.FleetCluster
		id  string
	}
	var line sync.Mutex
	results := fleet.Run(ctx, len(all), q.options, func(ctx context.Context, i int) (answered, error) {
		notes := &bytes.Buffer{}
		own := q.at(all[i], io.Discard, notes)
		live := &lineWriter{to: q.Err, mu: &line, prefix: all[i].Name + ": "}
		if q.live {
			own.Err = live
		}
		answer, err := q.ask(ctx, own)
		live.flush()
		if err != nil && answer == nil && fleet.Ended(ctx) {
			return answered{}, err
		}
		row, err := q.row(own, answer, err)
		if err != nil {
			return answered{}, err
		}
		row.Notes = linesOf(notes.String())
		result := answered{row: row}
		if q.identify != nil {
			result.id = q.identify(ctx, own)
		}
		return result, nil
	})
	rows, byID := make([]render.FleetCluster, len(all)), map[string][]string{}
	for i, r := range results {
		rows[i] = r.Value.row
		if r.Err != nil {
			rows[i] = q.missing(all[i], r.Err)
		}
		rows[i].Name, rows[i].Context, rows[i].Kubeconfig = all[i].Name, all[i].Context, all[i].File
		if id := r.Value.id; id != "" {
			byID[id] = append(byID[id], all[i].Name)
		}
	}
	for i, r := range results {
		if same := byID[r.Value.id]; len(same) > 1 {
			rows[i].SameClusterAs = slices.DeleteFunc(slices.Clone(same), func(name string) bool {
				return name == all[i].Name
			})
		}
	}
	return rows
}

// identity is the UID of the namespace kube-system, which costs one request.
func identity(ctx context.Context, env *environment) string {
	q, err := env.connect()
	if err != nil {
		return ""
	}
	id, err := clusterID(ctx, q.REST)
	if err != nil {
		return ""
	}
	return id
}

// row turns the answer of one cluster, or its error, into a row. env is the environment of that cluster. Only what the
// output needs is kept: the answers of many clusters are in memory at the same time.
func (q inquiry) row(env *environment, a *render.FleetAnswer, err error) (render.FleetCluster, error) {
	code, problem, try := exit.Parts(q.command, err)
	row := render.FleetCluster{Verdict: render.FleetFailed, ExitCode: code}
	if a == nil {
		row.Reason, row.Try = problem, env.aimed(try)
		row.Details = twoLines(row)
		return row, nil
	}
	row.Verdict, row.Left, row.Reason, row.Try = a.Verdict, a.Left, a.Reason, env.aimed(a.Try)
	show := a.Details
	switch q.output {
	case render.JSON, render.YAML:
		row.Report, err = json.Marshal(a.Report)
		return row, err
	case render.Wide:
		show = a.Whole
	case render.Table, render.Text, render.Name, render.HTML, render.Prometheus:
		if code == exit.Done || q.output == render.Name {
			return row, nil
		}
	}
	var details strings.Builder
	if err := show(&details); err != nil {
		return row, err
	}
	row.Details = strings.TrimLeft(details.String(), "\n")
	if problem != "" {
		row.Details += fmt.Sprintf("error: %s\nTry: %s\n", problem, env.aimed(try))
	}
	return row, nil
}

// missing is the row of a cluster without an answer.
func (q inquiry) missing(m *clusters.Cluster, err error) render.FleetCluster {
	panicked, late := (*fleet.PanicError)(nil), (*fleet.TimeoutError)(nil)
	row := render.FleetCluster{Verdict: render.FleetInterrupted, ExitCode: exit.Interrupted, Reason: "interrupted"}
	switch {
	case errors.Is(err, fleet.ErrNotStarted):
		row.Verdict, row.Reason = render.FleetNotStarted, err.Error()
		return row
	case errors.As(err, &panicked):
		row.Notes = linesOf(string(panicked.Stack))
	case errors.As(err, &late):
	default:
		return row
	}
	row.Verdict, row.ExitCode, row.Reason = render.FleetFailed, exit.Error, exit.OneLine(err).Error()
	row.Try = m.Aim(q.name, "kubectl version")
	if panicked != nil {
		row.Try = m.Aim(q.name, q.command.CommandPath())
	}
	row.Details = twoLines(row)
	return row
}

func twoLines(row render.FleetCluster) string {
	return fmt.Sprintf("error: %s\nTry: %s\n", row.Reason, row.Try)
}

// show shows the rows, and returns the exit code. worse returns the more important of two codes.
func (q inquiry) show(report render.Fleet, worse func(a, b int) int) error {
	for _, c := range report.Clusters {
		report.ExitCode = worse(report.ExitCode, c.ExitCode)
		if q.output == render.JSON || q.output == render.YAML {
			continue
		}
		for _, note := range c.Notes {
			fmt.Fprintf(q.Err, "%s: %s\n", c.Name, note)
		}
	}
	if err := report.Write(q.Out, q.output); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if report.ExitCode != exit.Done {
		return exit.Code(report.ExitCode)
	}
	return nil
}

// linesOf returns the lines of a text that are not empty.
func linesOf(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// inWaves asks the clusters of each wave at the same time, until a wave has a cluster with another exit code than 0.
func (q inquiry) inWaves(ctx context.Context, gentle <-chan struct{},
	waves [][]*clusters.Cluster) (rows []render.FleetCluster) {
	stopped, left := false, exit.WorkLeft
	for n, wave := range waves {
		number := n + 1
		if interrupted(gentle) || ctx.Err() != nil {
			stopped, left = true, exit.Interrupted
		}
		if stopped {
			for _, c := range wave {
				rows = append(rows, render.FleetCluster{Name: c.Name, Context: c.Context, Kubeconfig: c.File,
					Wave: number, Verdict: render.FleetNotStarted, ExitCode: left})
			}
			continue
		}
		names := make([]string, len(wave))
		for i, c := range wave {
			names[i] = c.Name
		}
		fmt.Fprintf(q.Err, "Wave %d of %d: %s.\n", number, len(waves), phrase.Few(names))
		for _, row := range q.askAll(ctx, wave) {
			row.Wave = number
			stopped = stopped || row.ExitCode != exit.Done
			rows = append(rows, row)
		}
	}
	return rows
}

// lineWriter writes whole lines with a prefix, so that lines of several clusters do not mix.
type lineWriter struct {
	to     io.Writer
	mu     *sync.Mutex // of to, and of rest
	prefix string
	rest   []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = rest
		if err := w.show(line); err != nil {
			return 0, err
		}
	}
}

// flush writes the last line if it has no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.show(w.rest) // like all notes
	w.rest = nil
}

func (w *lineWriter) show(line []byte) error {
	if strings.TrimSpace(string(line)) == "" {
		return nil
	}
	_, err := io.WriteString(w.to, w.prefix+string(line)+"\n")
	return err
}
