// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// steering is the command pause, resume or cancel with its flags.
type steering struct {
	*environment
	command *cobra.Command
	all     bool
	output  render.Format

	// act changes one migration, and returns the words for the result, for stdout.
	act func(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration) (done string, err error)
	// actAll replaces act with --all; nil: act.
	actAll func(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration) (done string, err error)
	// everything is called by --all before the migrations are changed; nil does nothing.
	everything func(ctx context.Context, q *records.Client) error
	// note is printed to stderr at the end; noteAll replaces it with --all.
	note, noteAll string
}

func newPauseCommand(env *environment) *cobra.Command {
	const note = "The controller stops writing within 2 seconds, after the requests in flight."
	pause := &steering{environment: env,
		act: setState(v1alpha1.StatePaused, "paused"), note: note,
		noteAll: note + "\nThe controller requests no further migration until: " + env.name + " resume --all",
		everything: func(ctx context.Context, q *records.Client) error {
			return install.Pause(ctx, q.REST,
				time.Now())
		},
	}
	return pause.newCommand(&cobra.Command{
		Use:   "pause [RESOURCE…]",
		Short: "Make the controller stop writing until resume",
		Long: `Set spec.state of the StorageVersionMigrations of the resources to Paused. The controller finishes the requests in flight
and writes nothing more. Rewritten objects stay as they are, and resume continues from there.

With --all the controller also requests no migration by itself until ` + env.name + ` resume --all, so that everything
stays paused while an installation bootstraps, and when resources or API servers change later. The key "paused" of the
ConfigMap kube-migrator-flags in kube-system records this; you need the permission to get and patch it. The controller
continues to record what may be stored, and carries out migrations that users request.`,
		Example: `  kube-migrator pause widgets.demo.example.com
  kube-migrator pause --all`,
	})
}

func newResumeCommand(env *environment) *cobra.Command {
	accepts := false
	resume := &steering{environment: env,
		act:    setState(v1alpha1.StateActive, "resumed"),
		actAll: resumeUnlessHeld,
		everything: func(ctx context.Context, q *records.Client) error {
			if accepts {
				if err := acceptRollback(ctx, q); err != nil {
					return err
				}
			}
			return install.Resume(ctx, q.REST)
		},
	}
	command := resume.newCommand(&cobra.Command{
		Use:   "resume [RESOURCE…]",
		Short: "Let the controller continue paused migrations",
		Long: `Set spec.state of the StorageVersionMigrations of the resources to Active. The controller continues where it stopped.

With --all the controller also requests migrations by itself again, if pause --all has stopped that.

While API servers are older than the newest release of Kubernetes that may have written objects, the controller holds the
migrations of built-in resources back: a rewrite would drop the fields that only the newer release knows. --all leaves them
held back, unless --accept-rollback accepts that. A migration that is named is resumed.`,
		Example: `  kube-migrator resume widgets.demo.example.com
  kube-migrator resume --all`,
	})
	command.Flags().BoolVar(&accepts, "accept-rollback", false,
		"Let built-in resources be rewritten after a rollback of Kubernetes; needs --all")
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		if accepts && len(args) > 0 {
			return exit.Usage(command, errors.New("--accept-rollback needs --all"))
		}
		return run(command, args)
	}
	return command
}

// acceptRollback accepts every rollback that is recorded now, and no later one.
func acceptRollback(ctx context.Context, q *records.Client) error {
	states, _, err := q.ReadStates(ctx)
	if err != nil {
		return err
	}
	var until time.Time
	for _, state := range states {
		if c := upgrade.RolledBack(&state.Status); c != nil && c.Status == metav1.ConditionTrue &&
			c.LastTransitionTime.After(until) {
			until = c.LastTransitionTime.Time
		}
	}
	if until.IsZero() {
		return exit.Try(errors.New("no rollback of Kubernetes is recorded"),
			"kubectl get storagestates.migration.k8s.io")
	}
	return install.AcceptRollback(ctx, q.REST, until)
}

// resumeUnlessHeld resumes a migration. If the controller holds it back, the controller resumes it later.
func resumeUnlessHeld(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration) (string, error) {
	if _, held := m.Annotations[v1alpha1.StateBeforeRollback]; !held || m.Spec.State != v1alpha1.StatePaused {
		return setState(v1alpha1.StateActive, "resumed")(ctx, q, m)
	}
	return "is resumed once the releases of the API servers allow it", change(ctx, q, m, returnTo(v1alpha1.StateActive), nil)
}

func newCancelCommand(env *environment) *cobra.Command {
	note := "Rewritten objects stay as they are. To request a migration again: " + env.name + " request RESOURCE"
	cancel := &steering{environment: env,
		act: cancelOne, note: note,
		noteAll: note + "\nThe controller may still request migrations of other resources. To prevent that: " +
			env.name + " pause --all",
	}
	return cancel.newCommand(&cobra.Command{
		Use:   "cancel [RESOURCE…]",
		Short: "Withdraw requests: stop writing, and discard the progress",
		Long: `Set spec.state of the StorageVersionMigrations of the resources to Cancelled. The controller stops writing within 2 seconds.
Rewritten objects stay as they are, but prove nothing: the next request starts at the first object. The controller requests
no migration of these resources by itself until a user does: ` + env.name + ` request RESOURCE. A
StorageVersionMigration that has succeeded stays as it is.

--all cancels what is requested by then. The controller may request migrations of other resources later, for instance while
an installation bootstraps; run ` + env.name + ` pause --all first to prevent that.

To let the controller decide again, delete the object: kubectl delete storageversionmigrations.migration.k8s.io NAME`,
		Example: `  kube-migrator cancel widgets.demo.example.com
  kube-migrator cancel --all`,
	})
}

// newCommand adds to a command what pause, resume and cancel have in common.
func (s *steering) newCommand(command *cobra.Command) *cobra.Command {
	s.command = command
	command.Long += `

RESOURCE is what kubectl accepts, and means every StorageVersionMigration of the resource; the name of a
StorageVersionMigration means that one. The command returns when the API server has accepted the change.

Exit codes: 0 accepted, 1 error.`
	command.Flags().BoolVar(&s.all, "all", false, "Every StorageVersionMigration in the cluster")
	arg.Output(command.Flags(), &s.output, render.Text, render.Name, render.JSON, render.YAML)
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 0 && !s.all {
			return arg.Missing(command, arg.Resource, "all")
		}
		if err := arg.Exclusive(command, arg.Resource, "all"); err != nil {
			return err
		}
		return s.run(command.Context(), args)
	}
	return command
}

// run changes each migration. If one fails, it continues with the others.
func (s *steering) run(ctx context.Context, words []string) error {
	q, err := s.connect()
	if err != nil {
		return err
	}
	chosen, err := q.List(ctx)
	if err != nil {
		return err
	}
	if !s.all {
		if chosen, err = q.Find(ctx, s.command, words, chosen); err != nil {
			return err
		}
	}
	var problems []error
	var now []v1alpha1.StorageVersionMigration // those that were changed
	if s.all && s.everything != nil {
		// First: the controller pauses whatever it requests from now on, and what it requested before is found below.
		if err := s.everything(ctx, q); err != nil {
			problems = append(problems, q.Explain(s.command.Name()+" what the controller requests later", err))
		}
		if chosen, err = q.List(ctx); err != nil {
			return err
		}
	}
	act := s.act
	if s.all && s.actAll != nil {
		act = s.actAll
	}
	steered := map[types.UID]bool{}
	for left := chosen; len(left) > 0; {
		for i := range left {
			steered[left[i].UID] = true
			done, err := act(ctx, q, &left[i])
			if err != nil {
				problems = append(problems, q.Explain(s.command.Name()+" "+left[i].Name, err))
				continue
			}
			now = append(now, left[i])
			if s.output == render.Text {
				_, err = fmt.Fprintf(s.Out, "%s %s\n", left[i].Name, done)
			}
			if err != nil {
				return fmt.Errorf("write what was done: %w", err)
			}
		}
		if left = nil; s.all { // all migrations, including those that the controller has requested in the meantime
			listed, err := q.List(ctx)
			if err != nil {
				return err
			}
			left = records.Matches(listed, func(m *v1alpha1.StorageVersionMigration) bool { return !steered[m.UID] })
		}
	}
	if err := writeMigrations(s.Out, s.output, now); err != nil {
		return err
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	note := s.note
	if s.all {
		note = cmp.Or(s.noteAll, s.note)
	}
	if len(steered) == 0 {
		fmt.Fprintln(s.Err, "There are no StorageVersionMigrations.")
	}
	if note != "" && (len(steered) > 0 || s.everything != nil) {
		fmt.Fprintln(s.Err, note)
	}
	return nil
}

// setState returns the act of setting spec.state. A cancelled migration stays cancelled until it is requested again. One
// that the controller holds back returns to the state Paused later, if that is what is set.
func setState(state v1alpha1.State, done string) func(context.Context, *records.Client, *v1alpha1.StorageVersionMigration) (string, error) {
	return func(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration) (string, error) {
		var annotations map[string]any
		if _, held := m.Annotations[v1alpha1.StateBeforeRollback]; held {
			annotations = returnTo(state)
		}
		switch {
		case m.Spec.State == state && annotations == nil:
			return "was already " + done, nil
		case m.Spec.State == v1alpha1.StateCancelled:
			return "stays cancelled until " + q.Program + " request " + records.ResourceOf(m).String(), nil
		}
		return done, change(ctx, q, m, annotations, map[string]any{"state": state})
	}
}

// returnTo returns the annotations of a migration that is held back, and that the controller returns to a state later.
func returnTo(state v1alpha1.State) map[string]any {
	return map[string]any{v1alpha1.StateBeforeRollback: state}
}

// change changes annotations and the spec of a migration as it is now.
func change(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration,
	annotations, spec map[string]any) error {
	return records.Insist(ctx, func() error {
		patched, err := q.Annotate(ctx, m, annotations, spec)
		if err == nil {
			*m = *patched
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		now, again := q.Get(ctx, m.Name)
		if again != nil {
			return again
		}
		if now == nil || now.UID != m.UID {
			return fmt.Errorf("%s was deleted meanwhile", m.Name)
		}
		*m = *now
		return err
	})
}

func cancelOne(ctx context.Context, q *records.Client, m *v1alpha1.StorageVersionMigration) (string, error) {
	if m.Status.CompletedGeneration >= max(1, m.Spec.Generation) {
		return "has succeeded: there is nothing to cancel", nil
	}
	return setState(v1alpha1.StateCancelled, "cancelled")(ctx, q, m)
}
