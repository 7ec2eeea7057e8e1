// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

func newWaitCommand(env *environment) *cobra.Command {
	var timeout time.Duration
	var output render.Format
	command := &cobra.Command{
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
			return interruptedOr(ctx, env.wait(ctx, command, args, timeout, output))
		},
	}
	arg.Duration(command.Flags(), &timeout, "timeout", 0, 0, "How long to wait (0: indefinitely)")
	arg.Output(command.Flags(), &output, render.Text, render.Name, render.JSON, render.YAML)
	return command
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
	// told is the last printed text about what the migration waits for.
	announced string
}

func (env *environment) wait(ctx context.Context, command *cobra.Command, words []string, timeout time.Duration,
	output render.Format) error {
	q, err := env.connect()
	if err != nil {
		return err
	}
	o := &observer{env: env, Client: q, command: command}
	all, err := o.List(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.Find(ctx, command, words, all)
	if err != nil {
		return err
	}
	waiting := make([]awaited, len(chosen))
	for i, m := range chosen {
		waiting[i] = awaited{name: m.Name, uid: m.UID, generation: m.Spec.Generation, last: m}
	}
	err = o.waitFor(ctx, waiting, all, timeout, output)
	last := make([]v1alpha1.StorageVersionMigration, len(waiting))
	for i := range waiting {
		last[i] = waiting[i].last
	}
	return cmp.Or(env.writeMigrations(output, last), err)
}

// waitFor waits until all have succeeded, or one has failed.
func (o *observer) waitFor(ctx context.Context, waiting []awaited, all []v1alpha1.StorageVersionMigration,
	timeout time.Duration, output render.Format) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	for {
		now := time.Now()
		o.warnIfQuiet(all, now)
		finished, err := o.env.check(waiting, all, o.records(limited, waiting, all), now, output)
		if finished || err != nil {
			return err
		}
		if all, err = o.again(limited); err != nil {
			return timedOut(limited, o.env, waiting, timeout, output, err)
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

// records reads the StorageStates if one of the awaited migrations has succeeded. It returns nil if they cannot be
// read: then wait does not wait for records, because the migrations have succeeded.
func (o *observer) records(ctx context.Context, waiting []awaited,
	all []v1alpha1.StorageVersionMigration) map[schema.GroupResource]*v1alpha1.StorageState {
	for i := range waiting {
		if m := find(all, waiting[i].uid); m == nil || waiting[i].done ||
			m.Status.CompletedGeneration < waiting[i].generation {
			continue
		}
		reading, cancel := context.WithTimeout(ctx, pollDeadline)
		defer cancel()
		states, _, _ := o.ReadStates(reading) // nil if they cannot be read
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

// recorded reports whether wait need not wait any longer after a success. It prints what wait waits for, or why it
// stops to.
func (w *awaited) recorded(env *environment, m *v1alpha1.StorageVersionMigration,
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
		fmt.Fprintf(env.Err, "%s has succeeded, and its StorageState stays as it is: %s\n", w.name, why)
	case awaits && waited >= recordPatience:
		fmt.Fprintf(env.Err, notRecorded, w.name, recordPatience)
	case awaits:
		if waited >= recordQuiet && !w.announcedRecord {
			w.announcedRecord = true
			fmt.Fprintf(env.Err, awaitsRecord, w.name)
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

func timedOut(limited context.Context, env *environment, waiting []awaited, timeout time.Duration,
	output render.Format, err error) error {
	if !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	var left []string
	for i := range waiting {
		switch w := &waiting[i]; {
		case w.done:
		case !w.succeeded.IsZero():
			fmt.Fprintf(env.Err, notRecorded, w.name, timeout)
			if err := env.writeSuccess(w, output); err != nil {
				return err
			}
		default:
			left = append(left, w.name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return exit.TryCode(fmt.Errorf("not finished within %v: %s", timeout, phrase.Few(left)), env.name+" progress -w "+
		strings.Join(left[:min(5, len(left))], " "), exit.WorkLeft)
}

// check prints which migrations have ended since the last call. finished is true if none is left to wait for.
func (env *environment) check(
	waiting []awaited, all []v1alpha1.StorageVersionMigration,
	states map[schema.GroupResource]*v1alpha1.StorageState, now time.Time, output render.Format,
) (finished bool, err error) {
	finished = true
	for i := range waiting {
		w := &waiting[i]
		if w.done {
			continue
		}
		m := find(all, w.uid)
		if m == nil && !w.succeeded.IsZero() { // it was deleted after it had succeeded
			w.done = true
			if err := env.writeSuccess(w, output); err != nil {
				return false, err
			}
			continue
		}
		if m == nil {
			return false, exit.TryCode(fmt.Errorf("%s was deleted", w.name), env.name+" request "+
				w.name, exit.Undetermined)
		}
		w.last = *m
		switch {
		case m.Status.CompletedGeneration >= w.generation:
			if w.done = w.recorded(env, m, recordOf(m, states), now); !w.done {
				finished = false
				continue
			}
			if err := env.writeSuccess(w, output); err != nil {
				return false, err
			}
			continue
		case records.Holds(m, v1alpha1.ConditionFailed) && m.Status.Run.Generation >= w.generation:
			return false, env.failed(m, output)
		case m.Spec.State == v1alpha1.StateCancelled:
			return false, exit.TryCode(fmt.Errorf("%s is cancelled", w.name), env.name+" request "+
				w.name, exit.Undetermined)
		case m.Spec.State == v1alpha1.StatePaused && !w.announcedPause:
			w.announcedPause = true
			fmt.Fprintf(env.Err, "%s is paused: waiting for %s resume %s\n", w.name, env.name, w.name)
		}
		if m.Status.State == v1alpha1.PhaseWaiting && m.Status.Summary != w.announced {
			w.announced = m.Status.Summary
			fmt.Fprintf(env.Err, "%s: %s\n", w.name, exit.OneLine(errors.New(w.announced)))
		}
		finished = false
	}
	return finished, nil
}

func (env *environment) writeSuccess(w *awaited, output render.Format) error {
	if output != render.Text {
		return nil // the object in the output shows it
	}
	if _, err := fmt.Fprintf(env.Out, "%s succeeded\n", w.name); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// failed shows how a migration failed.
func (env *environment) failed(m *v1alpha1.StorageVersionMigration, output render.Format) error {
	if output != render.Text {
		return exit.Code(exit.Failures) // the object in the output shows it
	}
	row := rowOf(m, m.Name)
	row.Why = records.MessageOf(m, v1alpha1.ConditionFailed)
	if err := row.WriteFailure(env.Out); err != nil {
		return fmt.Errorf("write failures: %w", err)
	}
	return exit.Code(exit.Failures)
}
