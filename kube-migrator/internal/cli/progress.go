// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/screen"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

const (
	pollEvery    = time.Second      // how often the migrations are read
	lookEvery    = 30 * time.Second // how often discovery is read
	pollDeadline = 10 * time.Second // how long one answer may take
)

// progressCommand is the command progress and its flags.
type progressCommand struct {
	*environment
	command *cobra.Command
	output  render.Format
	watch   bool
	about   records.Scope
	fleet   clusters.Flags
}

func newProgressCommand(env *environment) *cobra.Command {
	c := &progressCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "progress [RESOURCE…]",
		Short: "Show how far the controller in the cluster is, and whether an upgrade is safe now",
		Long: `Show how far the controller in the cluster is with each resource, or with the named ones, and whether an upgrade is safe now.

progress takes that from the StorageStates that the controller keeps, together with the versions that the API servers show
that they write; check gives the same verdicts. It does not depend on the StorageVersionMigrations, which you may delete
once they have succeeded. progress skips the resources that the installation excludes, unless they are named or --include
matches them.

With -w the command continues, also through outages of the API server, until every run has succeeded or failed and the
StorageStates record what was proven; it waits at most 30 seconds for the latter. A refusal that lasts, such as a missing
permission, ends it. If nothing happens for five minutes, it says so.

-o html writes a page that needs nothing besides itself, for a change ticket; dashboard shows the same page live.

RESOURCE is what kubectl accepts, or the name of a StorageVersionMigration.

Exit codes: 0 safe; 1 error; 2 unsafe: objects may be stored in an old version; 3 cannot be determined: a StorageState says
Unknown, was not renewed in time or does not exist, or a part of the cluster could not be read; 4 a migration has failed;
130 interrupted. 4 takes precedence over 2, and 2 over 3.` + fleetHelp,
		Example: `  kube-migrator progress -w
  kube-migrator progress widgets.demo.example.com -o json
  kube-migrator progress -o html > progress.html
  kube-migrator progress --contexts 'prod-*'`,
		RunE: func(command *cobra.Command, args []string) error {
			c.about.Names = args
			if err := c.check(); err != nil {
				return err
			}
			if c.fleet.Given(command) {
				q := inquiry{environment: env, command: command, output: c.output, ask: c.answer}
				return q.overFleet(&c.fleet, "VERDICT")
			}
			return c.run(command.Context())
		},
	}
	flags := c.command.Flags()
	arg.Output(flags, &c.output, render.Table, render.Wide, render.JSON, render.YAML, render.Name, render.HTML)
	c.about.Add(flags)
	c.fleet.Add(flags)
	flags.BoolVarP(&c.watch, "watch", "w", false, "Continue until every run has succeeded or failed")
	return c.command
}

// check returns an error for flags that contradict one another. It sends no request.
func (c *progressCommand) check() error {
	if c.watch && c.output != render.Table && c.output != render.Wide {
		return exit.Usage(c.command, fmt.Errorf("--watch and --output=%s cannot be used together", c.output))
	}
	if err := c.about.Check(c.command); err != nil {
		return err
	}
	return c.fleet.Check(c.command, "watch")
}

func (c *progressCommand) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, progress, err := c.look(ctx, c.environment)
	if err != nil {
		return interruptedOr(ctx, err)
	}
	switch {
	case c.output == render.HTML:
		err = page.Report(c.Out, page.OfProgress(progress, o.Host, nil))
	case !c.watch:
		style, _ := screen.Style(c.outTerminal)
		err = progress.Write(c.Out, c.output, style)
	default:
		progress, err = o.watch(ctx, progress, &screen.Progress{Out: c.Out,
			Terminal: c.outTerminal, Format: c.output})
	}
	if err != nil {
		return interruptedOr(ctx, err)
	}
	if code := progressExit(progress); code != exit.Done {
		return exit.Code(code)
	}
	return nil
}

// answer is progress for one cluster of a fleet.
func (c *progressCommand) answer(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
	_, progress, err := c.look(ctx, env)
	if err != nil {
		return nil, err
	}
	for i := range progress.Resources {
		progress.Resources[i].Try = env.aimed(progress.Resources[i].Try)
	}
	answer := render.ProgressAnswer(progress)
	if code := progressExit(progress); code != exit.Done {
		return &answer, exit.Code(code)
	}
	return &answer, nil
}

// look observes a cluster for the first time, and names what could not be read.
func (c *progressCommand) look(ctx context.Context, env *environment) (*observer, render.Progress, error) {
	q, err := env.connect()
	if err != nil {
		return nil, render.Progress{}, err
	}
	o := &observer{Client: q, command: c.command, about: c.about}
	progress, err := o.look(ctx)
	if err != nil {
		return nil, render.Progress{}, err
	}
	for _, what := range progress.NotLookedAt {
		fmt.Fprintf(q.Notes, "Skipped: %s\n", what)
	}
	return o, progress, nil
}

// interruptedOr returns the exit code of an interrupt if that is the reason of the error, otherwise the error.
func interruptedOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exit.Code(exit.Interrupted)
	}
	return err
}

// observer reads the state of a cluster repeatedly.
type observer struct {
	*records.Client
	command *cobra.Command
	about   records.Scope

	records.Known
	// unrecorded are resources whose migration has succeeded while their StorageState does not contain its proof yet.
	unrecorded []string
	invTaken   time.Time
	silent     bool // the API server did not answer the last request
	patience
}

// look gathers the facts and judges them.
func (o *observer) look(ctx context.Context) (render.Progress, error) {
	all, err := o.List(ctx)
	if err != nil {
		return render.Progress{}, err
	}
	if o.Inventory == nil || time.Since(o.invTaken) >= lookEvery {
		inv, err := inventory.Take(ctx, o.REST)
		if err != nil {
			return render.Progress{}, exit.Unreachable(o.Host, err)
		}
		o.Inventory, o.invTaken = inv, time.Now()
	}
	now := time.Now()
	question := upgrade.Question{Program: o.Program, Now: now}
	if o.States, question.Installed, err = o.ReadStates(ctx); err != nil {
		return render.Progress{}, err
	}
	o.Migrations = all
	facts, about, err := o.Choose(o.about)
	if err != nil {
		return render.Progress{}, exit.NotFound(o.Program, o.command, err)
	}
	o.warnIfQuiet(all, now)
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

// watch shows every change until no migration runs any more.
func (o *observer) watch(ctx context.Context, progress render.Progress,
	onScreen *screen.Progress) (render.Progress, error) {
	var err error
	for {
		if progress, err = o.untilRecorded(ctx, progress); err != nil {
			return progress, err
		}
		if err := onScreen.Show(progress); err != nil {
			return progress, err
		}
		o.notePaused(progress)
		if !progress.Unfinished() {
			return progress, onScreen.End(progress)
		}
		if progress, err = o.poll(ctx); err != nil {
			return progress, err
		}
	}
}

// untilRecorded continues after the end of all runs until every proof is recorded.
func (o *observer) untilRecorded(ctx context.Context, progress render.Progress) (render.Progress, error) {
	announced := false
	for begin := time.Now(); !progress.Unfinished() && len(o.unrecorded) > 0; {
		switch waited := time.Since(begin); {
		case waited >= recordPatience:
			fmt.Fprintf(o.Notes, notRecorded, phrase.Few(o.unrecorded), recordPatience)
			return progress, nil
		case waited >= recordQuiet && !announced:
			announced = true
			fmt.Fprintf(o.Notes, awaitsRecord, phrase.Few(o.unrecorded))
		}
		var err error
		if progress, err = o.poll(ctx); err != nil {
			return progress, err
		}
	}
	return progress, nil
}

// poll waits and looks again, until the API server answers.
func (o *observer) poll(ctx context.Context) (render.Progress, error) {
	for {
		if pace.Sleep(ctx, pollEvery) != nil {
			return render.Progress{}, ctx.Err()
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
		o.noteOutage(err)
		if err == nil {
			return progress, nil
		}
	}
}

// noteOutage reports once that the API server does not answer, and once that it answers again.
func (o *observer) noteOutage(err error) {
	switch {
	case err != nil && !o.silent:
		fmt.Fprintf(o.Notes, "No answer, trying again: %s\n", exit.OneLine(err))
	case err == nil && o.silent:
		fmt.Fprintln(o.Notes, "The API server answers again.")
	}
	o.silent = err != nil
}

const (
	// refusedFor is how long a refusal has to last: an API server that has just started refuses requests that it
	// accepts a moment later.
	refusedFor = 10 * time.Second
	// longQuiet is longer than a controller that works ever goes without a write.
	longQuiet = 5 * time.Minute
)

// patience is the state of a command that waits: what it has found, and what it has reported.
type patience struct {
	refusedSince   time.Time
	announcedQuiet bool
	announcedPause map[string]bool
}

// ends reports whether it is useless to wait any longer: the API server answers, and has refused requests for a while.
func (p *patience) ends(err error, now time.Time) bool {
	unknown := (*inventory.NotFoundError)(nil)
	if !errors.Is(err, records.ErrNotInstalled) && !apierrors.IsForbidden(err) && !errors.As(err, &unknown) {
		p.refusedSince = time.Time{}
		return false
	}
	if p.refusedSince.IsZero() {
		p.refusedSince = now
	}
	return now.Sub(p.refusedSince) >= refusedFor
}

// warnIfQuiet warns once if no migration has been written for a long time although there is one to carry out.
func (o *observer) warnIfQuiet(all []v1alpha1.StorageVersionMigration, now time.Time) {
	quiet := untouched(all, now)
	if quiet >= longQuiet && !o.announcedQuiet {
		fmt.Fprintf(o.Notes, "Nothing was written to any StorageVersionMigration for %v: perhaps no controller "+
			"runs.\nTry: kubectl get pods --all-namespaces -l app.kubernetes.io/name=%s\n",
			quiet.Truncate(time.Minute), install.Name)
	}
	o.announcedQuiet = quiet >= longQuiet
}

// untouched returns for how long no migration has been written, or 0 if there is none to carry out. It considers all
// migrations together, because one that waits for its turn is not written. It is pure.
func untouched(all []v1alpha1.StorageVersionMigration, now time.Time) time.Duration {
	var newest time.Time
	waits := false
	for i := range all {
		m := &all[i]
		waits = waits || isWanted(m)
		times := []time.Time{m.CreationTimestamp.Time, m.Status.Progress.UpdateTime.Time}
		for _, c := range m.Status.Conditions {
			times = append(times, c.LastTransitionTime.Time)
		}
		for _, f := range m.ManagedFields {
			if f.Time != nil {
				times = append(times, f.Time.Time)
			}
		}
		for _, t := range times {
			if t.After(newest) {
				newest = t
			}
		}
	}
	if !waits {
		return 0
	}
	return max(0, now.Sub(newest))
}

// isWanted reports whether a migration has to be carried out: it has not ended, and is neither paused nor cancelled.
func isWanted(m *v1alpha1.StorageVersionMigration) bool {
	run := upgrade.RunOf(m)
	return run == upgrade.NotBegun || run == upgrade.AtWork
}

// notePaused reports once for each paused migration that a user has to resume it.
func (o *observer) notePaused(p render.Progress) {
	for _, r := range p.Resources {
		paused := r.Run == upgrade.Paused
		if c := upgrade.RolledBack(r.Recorded); paused && c != nil && !o.announcedPause[r.Migration] {
			fmt.Fprintf(o.Notes, "%s is held back: %s\n", r.Migration, exit.OneLine(errors.New(c.Message)))
		} else if paused && !o.announcedPause[r.Migration] {
			fmt.Fprintf(o.Notes, "%s is paused: waiting for %s resume %s\n", r.Migration, o.Program, r.Migration)
		}
		if o.announcedPause == nil {
			o.announcedPause = map[string]bool{}
		}
		o.announcedPause[r.Migration] = paused
	}
}
