// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
)

// waitCommand is the command wait with its flags, and what it waits for.
type waitCommand struct {
	*environment
	command *cobra.Command
	timeout time.Duration
	output  render.Format

	observer *observer
	waiting  []awaited
}

func newWaitCommand(env *environment) *cobra.Command {
	c := &waitCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "wait RESOURCE…",
		Short: "Wait until migrations have succeeded, or one has failed",
		Long: `Wait until the migrations of all the resources have succeeded, or one of them has failed. wait follows the runs that are
requested when it starts, or later ones.

After a success, wait also waits until the StorageState of the resource records the proof, so that progress and check know
it. The controller records it within a moment; wait gives up after 30 seconds, and says so.

RESOURCE is what kubectl accepts, or the name of a StorageVersionMigration. wait continues while a migration is paused, and
through outages of the API server; a refusal that lasts, such as a missing permission, ends it. If nothing happens for five
minutes, it says so.

Exit codes: 0 all succeeded, 1 error, 2 not finished within --timeout, 3 one was deleted or cancelled, 4 one has failed, 130
interrupted.`,
		Example: `  kube-migrator request widgets && kube-migrator wait widgets --timeout 10m`,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return arg.Missing(command, arg.Resource)
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return interruptedOr(ctx, c.run(ctx, args))
		},
	}
	arg.Duration(c.command.Flags(), &c.timeout, "timeout", 0, 0, "How long to wait (0: indefinitely)")
	arg.Output(c.command.Flags(), &c.output, render.Text, render.Name, render.JSON, render.YAML)
	return c.command
}

// awaited is a migration whose end wait waits for.
type awaited struct {
	name           string
	uid            types.UID
	generation     int64                            // spec.generation when the wait began
	last           v1alpha1.StorageVersionMigration // as it was read last
	done           bool
	announcedPause bool
	// succeeded is when wait first read that it has succeeded; zero means not yet. Since then wait waits for its
	// record.
	succeeded       time.Time
	announcedRecord bool
	// announced is the last printed text about what the migration waits for.
	announced string
}

func (c *waitCommand) run(ctx context.Context, words []string) error {
	q, err := c.connect()
	if err != nil {
		return err
	}
	c.observer = &observer{Client: q, command: c.command}
	all, err := q.List(ctx)
	if err != nil {
		return err
	}
	chosen, err := q.Find(ctx, c.command, words, all)
	if err != nil {
		return err
	}
	for _, m := range chosen {
		c.waiting = append(c.waiting, awaited{name: m.Name, uid: m.UID, generation: m.Spec.Generation, last: m})
	}
	err = c.untilSuccess(ctx, all)
	last := make([]v1alpha1.StorageVersionMigration, len(c.waiting))
	for i := range c.waiting {
		last[i] = c.waiting[i].last
	}
	return cmp.Or(writeMigrations(c.Out, c.output, last), err)
}

// untilSuccess waits until all have succeeded, or one has failed.
func (c *waitCommand) untilSuccess(ctx context.Context, all []v1alpha1.StorageVersionMigration) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if c.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, c.timeout)
	}
	defer cancel()
	for {
		now := time.Now()
		c.observer.warnIfQuiet(all, now)
		finished, err := c.check(all, c.readRecords(limited, all), now)
		if finished || err != nil {
			return err
		}
		if all, err = c.observer.again(limited); err != nil {
			return c.timedOut(limited, err)
		}
	}
}

const (
	// recordPatience is how long wait waits for the record of a success. A running controller writes it within a
	// second, or after its current look.
	recordPatience = 30 * time.Second
	// recordQuiet is for how long wait does so without a message.
	recordQuiet = 3 * time.Second

	awaitsRecord = "%s has succeeded: waiting until its StorageState says so\n"
	notRecorded  = "%s has succeeded, and its StorageState does not say so after %v: perhaps no controller runs\n"
)

// readRecords reads the StorageStates if one of the awaited migrations has succeeded. It returns nil if they cannot be
// read: then wait does not wait for records, because the migrations have succeeded.
func (c *waitCommand) readRecords(ctx context.Context,
	all []v1alpha1.StorageVersionMigration) map[schema.GroupResource]*v1alpha1.StorageState {
	for _, w := range c.waiting {
		if m := find(all, w.uid); m == nil || w.done || m.Status.CompletedGeneration < w.generation {
			continue
		}
		reading, cancel := context.WithTimeout(ctx, pollDeadline)
		defer cancel()
		states, _, _ := c.observer.ReadStates(reading) // nil if they cannot be read
		return states
	}
	return nil
}

func find(all []v1alpha1.StorageVersionMigration, uid types.UID) *v1alpha1.StorageVersionMigration {
	for i := range all {
		if all[i].UID == uid {
			return &all[i]
		}
	}
	return nil
}

// recordOf returns the StorageState of a migration's resource, or nil if there is none. The StorageState may have the
// name of another group that serves the same objects.
func recordOf(m *v1alpha1.StorageVersionMigration,
	states map[schema.GroupResource]*v1alpha1.StorageState) *v1alpha1.StorageStateStatus {
	r := records.ResourceOf(m)
	if s := states[r]; s != nil {
		return &s.Status
	}
	for _, gv := range m.Spec.GroupVersions {
		if s := states[schema.GroupResource{Group: gv.Group, Resource: r.Resource}]; s != nil {
			return &s.Status
		}
	}
	return nil
}

// recorded reports whether wait need not wait any longer after a success. It notes what wait waits for, or why it stops
// to.
func (w *awaited) recorded(notes io.Writer, m *v1alpha1.StorageVersionMigration,
	s *v1alpha1.StorageStateStatus, now time.Time) bool {
	if w.succeeded.IsZero() {
		w.succeeded = now
	}
	if s == nil {
		return true
	}
	awaits, why := trigger.Unrecorded(m, s)
	waited := now.Sub(w.succeeded)
	switch {
	case why != "":
		fmt.Fprintf(notes, "%s has succeeded, and its StorageState stays as it is: %s\n", w.name, why)
	case awaits && waited >= recordPatience:
		fmt.Fprintf(notes, notRecorded, w.name, recordPatience)
	case awaits:
		if waited >= recordQuiet && !w.announcedRecord {
			w.announcedRecord = true
			fmt.Fprintf(notes, awaitsRecord, w.name)
		}
		return false
	}
	return true
}

// again waits and lists the migrations again, until the API server answers.
func (o *observer) again(ctx context.Context) ([]v1alpha1.StorageVersionMigration, error) {
	for {
		if pace.Sleep(ctx, pollEvery) != nil {
			return nil, ctx.Err()
		}
		listing, cancel := context.WithTimeout(ctx, pollDeadline)
		all, err := o.List(listing)
		cancel()
		if ended := ctx.Err(); err != nil && ended != nil {
			return nil, ended
		}
		if o.ends(err, time.Now()) {
			return nil, err
		}
		o.noteOutage(err)
		if err == nil {
			return all, nil
		}
	}
}

// timedOut returns the error for the end of the wait, or none if all migrations have succeeded before it.
func (c *waitCommand) timedOut(limited context.Context, err error) error {
	if !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	var left []string
	for i := range c.waiting {
		switch w := &c.waiting[i]; {
		case w.done:
		case !w.succeeded.IsZero():
			fmt.Fprintf(c.Err, notRecorded, w.name, c.timeout)
			if err := c.writeSuccess(w); err != nil {
				return err
			}
		default:
			left = append(left, w.name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return exit.TryCode(fmt.Errorf("not finished within %v: %s", c.timeout, phrase.Few(left)), c.name+" progress -w "+
		strings.Join(left[:min(5, len(left))], " "), exit.WorkLeft)
}

// check prints which migrations have ended since the last call. finished is true if none is left to wait for.
func (c *waitCommand) check(all []v1alpha1.StorageVersionMigration,
	states map[schema.GroupResource]*v1alpha1.StorageState, now time.Time) (finished bool, err error) {
	finished = true
	for i := range c.waiting {
		w := &c.waiting[i]
		if w.done {
			continue
		}
		m := find(all, w.uid)
		if m == nil && !w.succeeded.IsZero() { // it was deleted after it had succeeded
			w.done = true
			if err := c.writeSuccess(w); err != nil {
				return false, err
			}
			continue
		}
		if m == nil {
			return false, exit.TryCode(fmt.Errorf("%s was deleted", w.name), c.name+" request "+
				w.name, exit.Undetermined)
		}
		w.last = *m
		switch {
		case m.Status.CompletedGeneration >= w.generation:
			if w.done = w.recorded(c.Err, m, recordOf(m, states), now); !w.done {
				finished = false
				continue
			}
			if err := c.writeSuccess(w); err != nil {
				return false, err
			}
			continue
		case records.Holds(m, v1alpha1.ConditionFailed) && m.Status.Run.Generation >= w.generation:
			return false, c.failed(m)
		case m.Spec.State == v1alpha1.StateCancelled:
			return false, exit.TryCode(fmt.Errorf("%s is cancelled", w.name), c.name+" request "+
				w.name, exit.Undetermined)
		case m.Spec.State == v1alpha1.StatePaused && !w.announcedPause:
			w.announcedPause = true
			fmt.Fprintf(c.Err, "%s is paused: waiting for %s resume %s\n", w.name, c.name, w.name)
		}
		if m.Status.State == v1alpha1.PhaseWaiting && m.Status.Summary != w.announced {
			w.announced = m.Status.Summary
			fmt.Fprintf(c.Err, "%s: %s\n", w.name, exit.OneLine(errors.New(w.announced)))
		}
		finished = false
	}
	return finished, nil
}

func (c *waitCommand) writeSuccess(w *awaited) error {
	if c.output != render.Text {
		return nil // the object in the output shows it
	}
	if _, err := fmt.Fprintf(c.Out, "%s succeeded\n", w.name); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// failed shows how a migration failed.
func (c *waitCommand) failed(m *v1alpha1.StorageVersionMigration) error {
	if c.output != render.Text {
		return exit.Code(exit.Failures) // the object in the output shows it
	}
	row := rowOf(m, m.Name)
	row.Why = records.MessageOf(m, v1alpha1.ConditionFailed)
	if err := row.WriteFailure(c.Out); err != nil {
		return fmt.Errorf("write failures: %w", err)
	}
	return exit.Code(exit.Failures)
}
