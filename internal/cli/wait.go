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
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
)

func newWaitCommand(env *environment) *cobra.Command {
	var timeout time.Duration
	var output render.Format
	command := &cobra.Command{
		Use:   "wait RESOURCE…",
		Short: "Wait until migrations have succeeded, or one has failed",
		Long: `Wait until the migrations of all the resources have succeeded, or one of them has failed. What is waited for is the run that
is asked for when the command starts, or a later one.

RESOURCE is what kubectl takes, or the name of a StorageVersionMigration. A paused one is waited for. Outages of the API
server are waited out; a refusal that lasts, such as a lost permission, ends the command. Where nothing happens for five
minutes it says so.

Exit codes: 0 all succeeded, 1 error, 2 not finished within --timeout, 3 one was deleted, 4 one has failed, 130 interrupted.`,
		Example: `  kube-migrator request widgets && kube-migrator wait widgets --timeout 10m`,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing(command, resource)
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return interruptedOr(ctx, env.wait(ctx, command, args, timeout, output))
		},
	}
	durationVar(command.Flags(), &timeout, "timeout", 0, 0, "How long to wait (0: indefinitely)")
	outputVar(command.Flags(), &output, render.Text, render.Name, render.JSON, render.YAML)
	return command
}

// awaited is one migration that is waited for.
type awaited struct {
	name       string
	uid        types.UID
	generation int64                            // spec.generation when the wait began
	last       v1alpha1.StorageVersionMigration // as it was seen last
	done       bool
	toldPaused bool
	// told is what was said last about what it waits for.
	told string
}

func (env *environment) wait(ctx context.Context, command *cobra.Command, words []string, timeout time.Duration, output render.Format) error {
	q, err := env.requests()
	if err != nil {
		return err
	}
	o := &observer{requests: q, command: command}
	all, err := o.list(ctx)
	if err != nil {
		return err
	}
	chosen, err := o.find(ctx, command, words, all)
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
func (o *observer) waitFor(ctx context.Context, waiting []awaited, all []v1alpha1.StorageVersionMigration, timeout time.Duration, output render.Format) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	for {
		o.tellQuiet(all, time.Now())
		finished, err := o.env.check(waiting, all, output)
		if finished || err != nil {
			return err
		}
		if all, err = o.again(limited); err != nil {
			return timedOut(limited, o.env, waiting, timeout, err)
		}
	}
}

// again lists once more after a moment, until the API server answers.
func (o *observer) again(ctx context.Context) ([]v1alpha1.StorageVersionMigration, error) {
	for {
		if err := sleep(ctx, pollEvery); err != nil {
			return nil, err
		}
		listing, cancel := context.WithTimeout(ctx, pollDeadline)
		all, err := o.list(listing)
		cancel()
		if ended := ctx.Err(); err != nil && ended != nil {
			return nil, ended
		}
		if o.ends(err, time.Now()) {
			return nil, err
		}
		o.tell(err)
		if err == nil {
			return all, nil
		}
	}
}

func timedOut(limited context.Context, env *environment, waiting []awaited, timeout time.Duration, err error) error {
	if !errors.Is(limited.Err(), context.DeadlineExceeded) {
		return err
	}
	var left []string
	for _, w := range waiting {
		if !w.done {
			left = append(left, w.name)
		}
	}
	return hintedCode(fmt.Errorf("not finished within %v: %s", timeout, few(left)), env.name+" progress -w "+strings.Join(left[:min(5, len(left))], " "), exitWorkLeft)
}

// check tells of what has ended since the last time; finished where nothing is left to wait for.
func (env *environment) check(waiting []awaited, all []v1alpha1.StorageVersionMigration, output render.Format) (finished bool, err error) {
	finished = true
	for i := range waiting {
		w := &waiting[i]
		if w.done {
			continue
		}
		same := matches(all, func(m *v1alpha1.StorageVersionMigration) bool { return m.UID == w.uid })
		if len(same) == 0 {
			return false, hintedCode(fmt.Errorf("%s was deleted", w.name), env.name+" request "+w.name, exitUndetermined)
		}
		m := &same[0]
		w.last = *m
		switch {
		case m.Status.CompletedGeneration >= w.generation:
			w.done = true
			if output == render.Text {
				_, err = fmt.Fprintf(env.Out, "%s succeeded\n", w.name)
			}
			if err != nil {
				return false, fmt.Errorf("write result: %w", err)
			}
			continue
		case holds(m, v1alpha1.Failed) && m.Status.Run.Generation >= w.generation:
			return false, env.failed(m, output)
		case m.Spec.State == v1alpha1.Cancelled:
			return false, hintedCode(fmt.Errorf("%s is cancelled", w.name), env.name+" request "+w.name, exitUndetermined)
		case m.Spec.State == v1alpha1.Paused && !w.toldPaused:
			w.toldPaused = true
			fmt.Fprintf(env.Err, "%s is paused: waiting for %s resume %s\n", w.name, env.name, w.name)
		}
		if m.Status.State == v1alpha1.PhaseWaiting && m.Status.Summary != w.told {
			w.told = m.Status.Summary
			fmt.Fprintf(env.Err, "%s: %s\n", w.name, oneLine(errors.New(w.told)))
		}
		finished = false
	}
	return finished, nil
}

// failed shows how a migration failed.
func (env *environment) failed(m *v1alpha1.StorageVersionMigration, output render.Format) error {
	if output != render.Text {
		return exitCode(exitFailures) // the object tells
	}
	row := rowOf(m, m.Name)
	row.Why = messageOf(m, v1alpha1.Failed)
	if err := row.WriteFailure(env.Out); err != nil {
		return fmt.Errorf("write failures: %w", err)
	}
	return exitCode(exitFailures)
}
