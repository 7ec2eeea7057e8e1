// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// retirement is the command retire with its flags, and what it knows about the version.
type retirement struct {
	migration
	intent     retire.Intent
	schemaFrom string
	dryRun     bool
	output     render.Format

	// all are the cluster's resources.
	all      *inventory.Inventory
	resource inventory.Resource
	// notes is the file in which this machine records which retirements it has started.
	notes  *checkpoint.File
	facts  retire.Facts
	report *render.Retirement
}

func newRetireCommand(env *environment) *cobra.Command {
	r := &retirement{migration: migration{environment: env}}
	r.command = &cobra.Command{
		Use:   "retire CRD --version VERSION",
		Short: "Remove an old version of a custom resource from the cluster, safely",
		Long: `Remove an old version of a custom resource from the cluster. retire checks each step before the next, and the same command
continues after any interruption:

  migrate        rewrite every object in the storage version, with proof (as the command migrate does)
  prune          reduce status.storedVersions to the storage version
  managedFields  move the managedFields entries that name the version to the version that stays, with their owners: once a
                 version is gone, the API server rejects every server-side apply to an object with an entry that names it
  dependents     with --fix-owners: move the ownerReferences that name the version to the version that stays
  unserve        with --unserve: set served: false; then wait for requests that started before, and move what they wrote
  remove         with --remove: remove the version from spec.versions; then look for dependents once more

Before it writes anything, retire refuses whatever could strand an object: the version is the storage version or the only
one; a version may be stored that the CRD does not have; objects cannot be read or rewritten; the API servers do not
agree; the conversion webhook is unresponsive; another migration of the resource is running; objects, or dependents to
move, would lose fields that the schema under which they would be stored does not have; or --remove is given and the
version is still served. --accept-field-loss=spec.size accepts that this field is lost. It checks all permissions first.
It writes the CRD only if that has not changed since the checks, and changes nothing else. A version that the CRD does not
have and that nothing names is an error, unless this machine started to retire it: then it is retired already.

Entries are moved with the paths of those of their fields that the version which stays has. If a conversion webhook renames a
field, the new name has no owner until the field's manager applies again: let appliers use the new version first.

The garbage collector reads an owner at the version that an ownerReference names. If that version is no longer served, the
dependent stays behind when its owner is deleted. Therefore retire lists the metadata of all objects in the cluster, reports
the dependents, and refuses --unserve while there are some, or while there are resources that it cannot list. Let the
operator write ownerReferences with the new version first; --fix-owners then moves the existing ones. It changes nothing but
their apiVersion, and the field managers keep what they own. If the version is not served any more, the garbage collector
then deletes the dependents whose owner is gone. --leave-owners goes on in spite of dependents.

--rescue is for a version that was removed too early, so that objects which are stored in it can no longer be read, or
objects whose managedFields name it can no longer be applied. It adds the version again, unserved, and then retires and
removes it. The version gets a schema that keeps every field, so that the conversion finds everything that is stored; or the
schema of --schema-from, with its defaults.

CRD is the name of the CustomResourceDefinition, or what kubectl accepts for the resource.

Exit codes: 0 done (or nothing refused in a dry run), 1 error, 2 refused because it is not safe, the CRD changed, or
ownerReferences that name the version came after the last look, 3 the API servers do not agree or the evidence is too weak, 4
some objects could not be rewritten or moved, 130 interrupted.`,
		Example: `  kube-migrator retire widgets.demo.example.com --version v1 --dry-run
  kube-migrator retire widgets.demo.example.com --version v1
  kube-migrator retire widgets.demo.example.com --version v1 --unserve --remove
  kube-migrator retire widgets.demo.example.com --version v1alpha1 --rescue --schema-from old-crd.yaml`,
		Args: arg.One("CRD"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := r.check(); err != nil {
				return err
			}
			return r.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				r.gentle = gentle
				return r.run(ctx, args)
			})
		},
	}
	r.add(r.command.Flags())
	return r.command
}

func (r *retirement) add(flags *pflag.FlagSet) {
	q := &r.intent
	flags.StringVar(&q.Version, "version", "", "The version to retire, such as v1alpha1")
	flags.BoolVar(&q.Unserve, "unserve", false, "Set served: false for the version")
	flags.BoolVar(&q.Remove, "remove", false, "Remove the version from spec.versions")
	flags.BoolVar(&q.Rescue, "rescue", false,
		"Add a version again that was removed too early, then retire and remove it")
	flags.BoolVar(&q.FixOwners, "fix-owners", false,
		"Move ownerReferences that name the version to the version that stays")
	flags.BoolVar(&q.LeaveOwners, "leave-owners", false,
		"Go on where ownerReferences name the version, or cannot be read")
	flags.StringVar(&r.schemaFrom, "schema-from", "",
		"CustomResourceDefinition with the schema that --rescue gives the version; - is standard input (default: a "+
			"schema that keeps every field)")
	flags.BoolVar(&r.dryRun, "dry-run", false, "Show what would be done, and write nothing")
	r.addSweep(flags)
	arg.FieldLoss(flags, &r.options.AcceptFieldLoss)
	arg.Output(flags, &r.output, render.Text, render.JSON, render.YAML)
}

// check returns an error for flags that contradict one another. It sends no request.
func (r *retirement) check() error {
	if r.intent.Version == "" {
		return arg.Missing(r.command, "version")
	}
	for _, other := range []string{"remove", "unserve"} { // a rescue removes the version again, unserved all the time
		if err := arg.Exclusive(r.command, "rescue", other); err != nil {
			return err
		}
	}
	if err := arg.Needs(r.command, "schema-from", "rescue"); err != nil {
		return err
	}
	r.intent.Program, r.intent.AcceptFieldLoss = r.name, r.options.AcceptFieldLoss
	// The CRD is pruned in a step of its own. A rescue does not resume from a checkpoint, because the version was
	// removed on the basis of a wrong proof.
	r.keep, r.options.Resume = true, !r.intent.Rescue
	arg.CompleteShutdownDelay(r.command, r.options.SettleTime, &r.shutdownDelay)
	return nil
}

// run gathers the facts, decides, carries out the plan, and shows the report. args has the name of the CRD.
func (r *retirement) run(ctx context.Context, args []string) error {
	all, resources, err := r.prepare(ctx, &records.Selection{Names: args})
	if err != nil {
		return err
	}
	r.all, r.resource = all, resources[0]
	if r.resource.CRD == nil {
		return r.undefined(ctx)
	}
	schema, err := r.readSchema()
	if err != nil {
		return exit.Usage(r.command, err)
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := r.gather(ctx); err != nil {
		return err
	}
	plan, err := r.intent.Decide(r.facts)
	if err != nil {
		return r.refused(err)
	}
	d := r.facts.CRD
	r.report = &render.Retirement{
		CRD: d.Metadata.Name, Version: r.intent.Version, StorageVersion: d.StorageVersion(),
		DryRun: r.dryRun, Steps: plan.Steps, Owners: r.facts.Owners,
	}
	if n := r.facts.Dependents; n.Objects > 0 || len(n.Unread) > 0 {
		r.report.Dependents = &n
	}
	if l := r.facts.Losses.Accepted; l.Objects > 0 {
		r.report.Losses = &l
	}
	if err := r.permitted(ctx, plan); err != nil {
		return err
	}
	code := exit.Done
	if r.dryRun {
		r.report.Next = r.inEarnest(r.facts.CRD.Metadata.Name)
	} else if code, err = r.do(ctx, plan, schema); err != nil {
		return err
	}
	return r.show(code)
}

// undefined returns why no CRD was found.
func (r *retirement) undefined(ctx context.Context) error {
	name := crd.Name(r.resource.GroupResource)
	_, err := crd.Get(ctx, r.REST, name)
	if apierrors.IsNotFound(err) {
		return exit.Try(fmt.Errorf(
			"%s is not a custom resource: only a version of a CustomResourceDefinition can be retired",
			r.resource.GroupResource,
		), r.name+" plan")
	}
	if err == nil {
		err = errors.New("retire needs the list of all CRDs")
	}
	return exit.Try(fmt.Errorf("read CustomResourceDefinition %s: %w", name, err),
		"kubectl auth can-i list customresourcedefinitions.apiextensions.k8s.io")
}

// permitted checks all permissions that the plan needs before its first step. A dry run only warns, because another
// user may carry out the plan.
func (r *retirement) permitted(ctx context.Context, plan retire.Plan) error {
	err := access.Ask(ctx, r.REST, plan.Permissions(r.facts))
	switch lacking := (*access.ForbiddenError)(nil); {
	case errors.As(err, &lacking) && r.dryRun:
		fmt.Fprintf(r.Err, "Warning: this plan would be refused for lack of permissions: %v\n", err)
		return nil
	case errors.As(err, &lacking):
		return exit.Try(err, lacking.Try())
	}
	return err
}

// show writes the report.
func (r *retirement) show(code int) error {
	if err := writeReport(r.Out, r.output, r.report); err != nil {
		return err
	}
	if code != exit.Done {
		return exit.Code(code)
	}
	return nil
}

// do carries out the plan, and returns the exit code. It returns an error only if nothing was started.
func (r *retirement) do(ctx context.Context, plan retire.Plan, schema map[string]any) (int, error) {
	if err := r.remember(); err != nil {
		return 0, err
	}
	steps, err := r.steps(schema).Do(ctx, plan)
	r.report.Steps = steps
	if err == nil {
		return exit.Done, nil
	}
	begun := len(steps) > 0 && steps[0].Name == retire.Restore && steps[0].State == retire.Done
	if r.report.Migration != nil && r.report.Migration.Result.Started.IsZero() && !begun {
		return 0, r.explain(r.resource, err) // nothing was started, so the two lines of an error are enough
	}
	r.report.Error, r.report.Next = exit.OneLine(err).Error(), r.next(err)
	return retireCode(err), nil
}

// next returns the command that continues after an error.
func (r *retirement) next(err error) string {
	refused := (*refusal.Error)(nil)
	switch {
	case errors.As(err, &refused):
		return refused.Try
	case errors.Is(err, migrate.ErrNotProven) && r.report.Migration != nil:
		if reachable := r.report.Migration.Result.Epoch.Evidence.Reachable(); reachable < r.options.MinEvidence {
			return r.inEarnest(r.facts.CRD.Metadata.Name, "--min-evidence="+strings.ToLower(reachable.String()))
		}
	}
	return r.inEarnest(r.facts.CRD.Metadata.Name)
}

// retireCode returns the exit code for the error of a run.
func retireCode(err error) int {
	refused := (*refusal.Error)(nil)
	switch {
	case errors.As(err, &refused), errors.Is(err, storedversions.ErrChanged):
		return exit.WorkLeft
	case errors.Is(err, retire.ErrNotMoved):
		return exit.Failures
	}
	return codeOf(err)
}

// refused turns a refusal into the two lines of every error.
func (r *retirement) refused(err error) error {
	refused := (*refusal.Error)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	code := exit.WorkLeft
	if refused.Reason == retire.UnknownVersion || refused.Reason == retire.NotStranded {
		code = exit.Error
	}
	return exit.TryCode(err, refused.Try, code)
}

// settle waits until every API server has known a generation of the CRD for the settle time.
func (r *retirement) settle(ctx context.Context, generation int64) error {
	options := r.options
	servers := r.servers.For(r.resource.Target())
	deadline := time.Now().Add(options.AgreementTimeout + options.SettleTime)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for said := false; ; {
		epoch, err := servers.Epoch(ctx)
		switch {
		case err == nil && epoch.CRDGeneration > generation:
			return fmt.Errorf("%w: its generation is %d, was %d", storedversions.ErrChanged,
				epoch.CRDGeneration, generation)
		case err == nil && epoch.CRDGeneration == generation && time.Since(epoch.Since) >= options.SettleTime:
			if least := options.MinEvidence.AtOnce(); epoch.Evidence < least {
				return fmt.Errorf("%w: the evidence is %v, and %v is asked for", migrate.ErrNotProven,
					epoch.Evidence, least)
			}
			return nil
		case time.Now().After(deadline) && err != nil:
			return fmt.Errorf("%w: they do not all know generation %d of the CRD: %w",
				migrate.ErrNoAgreement, generation, err)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: they have not all known generation %d of the CRD for %v without a break",
				migrate.ErrNoAgreement, generation, options.SettleTime)
		}
		if err := r.stopped(); err != nil {
			return err
		}
		if !said {
			fmt.Fprintf(r.Err, "Waiting for requests that started before, at most %v\n",
				options.SettleTime)
			said = true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
