// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
)

const (
	pollEvery    = time.Second      // the migrations
	lookEvery    = 30 * time.Second // at discovery
	pollDeadline = 10 * time.Second // for one answer
)

func newProgressCommand(env *environment) *cobra.Command {
	output, watch, about := render.Format(""), false, scope{}
	command := &cobra.Command{
		Use:   "progress [RESOURCE…]",
		Short: "Show how far the controller in the cluster is, and whether an upgrade is safe now",
		Long: `Show how far the controller in the cluster is with each resource, or with those that are named, and whether an upgrade is
safe now.

Whether an upgrade is safe is taken from the StorageStates that the controller keeps, together with what the API servers show
that they write; check gives the same verdicts. It does not need the StorageVersionMigrations, which may be deleted once they
have succeeded. Resources that the installation excludes are not judged, unless they are named or --include matches them.

With -w the command goes on, through outages of the API server too, until every run has succeeded or failed, and what was proven is recorded in the
StorageStates, which takes a moment and is waited for at most 30 seconds. A refusal that
lasts, such as a lost permission, ends it. Where nothing happens for five minutes it says so.

RESOURCE is what kubectl takes, or the name of a StorageVersionMigration.

Exit codes: 0 safe; 1 error; 2 unsafe: objects may be stored in an old version; 3 that cannot be determined: a StorageState says
Unknown, was not renewed in time or does not exist, or a part of the cluster could not be read; 4 a migration has failed;
130 interrupted. Of several, 4 comes before 2 before 3.`,
		Example: `  kube-migrator progress -w
  kube-migrator progress widgets.demo.example.com -o json`,
		RunE: func(command *cobra.Command, args []string) error {
			if watch && output != render.Table && output != render.Wide {
				return usageError(command, fmt.Errorf("--watch and --output=%s exclude each other", output))
			}
			about.names = args
			if err := about.check(command); err != nil {
				return err
			}
			return env.progress(command, about, output, watch)
		},
	}
	outputVar(command.Flags(), &output, render.Table, render.Wide, render.JSON, render.YAML, render.Name)
	about.add(command.Flags())
	command.Flags().BoolVarP(&watch, "watch", "w", false, "Go on until every run has succeeded or failed")
	return command
}

func (env *environment) progress(command *cobra.Command, about scope, output render.Format, watch bool) error {
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	q, err := env.requests()
	if err != nil {
		return err
	}
	o := &observer{requests: q, command: command, about: about}
	progress, err := o.look(ctx)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	for _, what := range progress.NotLookedAt {
		fmt.Fprintf(env.Err, "Skipped: %s\n", what)
	}
	style, width := env.style()
	if !watch {
		style.Bars = style.Bars && width >= wideEnough
		err = progress.Write(env.Out, output, style)
	} else {
		progress, err = o.watch(ctx, progress, &screen{env: env, output: output, style: style})
	}
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if code := progressExit(progress); code != exitDone {
		return exitCode(code)
	}
	return nil
}

// interruptedOr is the error, or the exit code of an interrupt where that is the reason.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exitCode(exitInterrupted)
	}
	return err
}

// observer looks at a cluster again and again.
type observer struct {
	*requests
	command *cobra.Command
	about   scope

	known
	// unrecorded are resources whose migration has proven what their StorageState does not say yet.
	unrecorded []string
	invTaken   time.Time
	silent     bool // the API server did not answer last time
	patience
}

// look gathers what is seen now and judges it.
func (o *observer) look(ctx context.Context) (render.Progress, error) {
	all, err := o.list(ctx)
	if err != nil {
		return render.Progress{}, err
	}
	if o.inv == nil || time.Since(o.invTaken) >= lookEvery {
		inv, err := inventory.Take(ctx, o.client)
		if err != nil {
			return render.Progress{}, o.env.unreachable(o.config, err)
		}
		o.inv, o.invTaken = inv, time.Now()
	}
	now := time.Now()
	question := upgrade.Question{Program: o.env.name, Now: now}
	if o.states, question.Installed, err = o.readStates(ctx); err != nil {
		return render.Progress{}, err
	}
	o.migrations = all
	facts, about, err := o.choose(o.about)
	if err != nil {
		return render.Progress{}, o.env.notFound(o.command, err)
	}
	o.tellQuiet(all, now)
	o.unrecorded = nil
	for _, f := range facts {
		if m := f.Migration(); m != nil && f.State != nil {
			if awaited, _ := trigger.Unrecorded(m, f.State); awaited {
				o.unrecorded = append(o.unrecorded, f.Resource.String())
			}
		}
	}
	return progressOf(question, facts, about), nil
}

// watch shows every change until nothing runs any more.
func (o *observer) watch(ctx context.Context, progress render.Progress, screen *screen) (render.Progress, error) {
	var err error
	for {
		if progress, err = o.untilRecorded(ctx, progress); err != nil {
			return progress, err
		}
		if err := screen.show(progress); err != nil {
			return progress, err
		}
		o.tellPaused(progress)
		if !progress.Unfinished() {
			return progress, screen.end(progress)
		}
		if progress, err = o.poll(ctx); err != nil {
			return progress, err
		}
	}
}

// untilRecorded looks on where every run has ended and something that was proven is not recorded yet.
func (o *observer) untilRecorded(ctx context.Context, progress render.Progress) (render.Progress, error) {
	told := false
	for begin := time.Now(); !progress.Unfinished() && len(o.unrecorded) > 0; {
		switch waited := time.Since(begin); {
		case waited >= recordPatience:
			fmt.Fprintf(o.env.Err, notRecorded, few(o.unrecorded), recordPatience)
			return progress, nil
		case waited >= recordQuiet && !told:
			told = true
			fmt.Fprintf(o.env.Err, awaitsRecord, few(o.unrecorded))
		}
		var err error
		if progress, err = o.poll(ctx); err != nil {
			return progress, err
		}
	}
	return progress, nil
}

// poll waits a moment and looks again, until the API server answers.
func (o *observer) poll(ctx context.Context) (render.Progress, error) {
	for {
		if err := sleep(ctx, pollEvery); err != nil {
			return render.Progress{}, err
		}
		looking, cancel := context.WithTimeout(ctx, pollDeadline)
		progress, err := o.look(looking)
		cancel()
		if err := ctx.Err(); err != nil {
			return render.Progress{}, err
		}
		if o.ends(err, time.Now()) {
			return render.Progress{}, err
		}
		o.tell(err)
		if err == nil {
			return progress, nil
		}
	}
}

// tell notes once that the API server does not answer, and once that it does again.
func (o *observer) tell(err error) {
	switch {
	case err != nil && !o.silent:
		fmt.Fprintf(o.env.Err, "No answer, trying again: %s\n", oneLine(err))
	case err == nil && o.silent:
		fmt.Fprintln(o.env.Err, "The API server answers again.")
	}
	o.silent = err != nil
}

// sleep waits for a while; the error is the context's.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wideEnough is how many columns a terminal needs for bars.
const wideEnough = 110

// style is how stdout is written to, and the width of the terminal, 0 where it is none.
func (env *environment) style() (style render.ProgressStyle, width int) {
	if env.outTerminal == nil {
		return style, 0
	}
	width, _, err := term.GetSize(int(env.outTerminal.Fd()))
	if err != nil {
		width = 80
	}
	return render.ProgressStyle{Bars: true, Colors: os.Getenv("NO_COLOR") == ""}, width
}
