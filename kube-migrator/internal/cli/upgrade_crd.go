// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// crdUpgrade is the command upgrade-crd with its flags, and the upgrades that it carries out.
type crdUpgrade struct {
	migration
	files []string
	// accepted and unrelated are crdlife.Intent.AcceptFieldLoss and AcceptOtherMeaning.
	accepted, unrelated []string
	manager             string
	force               bool
	dryRun              bool
	// leaveOwners goes on although ownerReferences name, or may name, a version that will not be served.
	leaveOwners bool
	output      render.Format

	all    []*crdlife.Upgrade
	report *render.CRDUpgrades
}

func newUpgradeCRDCommand(env *environment) *cobra.Command {
	u := &crdUpgrade{migration: migration{environment: env}}
	u.command = &cobra.Command{
		Use:   "upgrade-crd -f FILE",
		Short: "Apply a new release of CustomResourceDefinitions, even if it drops stored versions",
		Long: `Apply the CustomResourceDefinitions of files, as "kubectl apply --server-side" does. The API server rejects a CRD that lacks a
version in which objects may be stored (status.storedVersions). For such a CRD the command takes these steps:

  unhook         remove a conversion webhook that fails, if the file has none and no object loses a field without it
  intermediate   apply the CRD of the file plus the missing versions of the cluster's CRD, unserved
  migrate        rewrite every object in the new storage version, with proof (as the command migrate does)
  prune          reduce status.storedVersions to the storage version
  managedFields  move the managedFields entries that name a dropped version, with their owners: once the version is gone, the
                 API server rejects every server-side apply to an object with an entry that names it
  apply          send the CRD of the file as it is

The command plans again after each step, from what the cluster has then, so the same command continues after an interruption
at any step. A CRD in the cluster always has every version in which an object may be stored. If one CRD is refused, the
others are still upgraded. Objects of other kinds are skipped.

The API server drops each field that the schema of the new release does not have, also within a version that stays, when the
object is written next. If objects have such fields, the command refuses, and names the fields and the first objects;
--accept-field-loss=NAME accepts that for one CRD. The command learns from managedFields which objects have a field: it reads
only metadata, never values. An object of which managedFields do not tell, such as one whose list is owned as a whole,
counts. If the two releases have no version in common, their fields may mean something else, and the command refuses, too;
--accept-other-meaning=NAME accepts that. Save the objects first, with the command that the refusal names.

"kubectl apply --server-side" can later apply what --field-manager=kubectl applies, without conflicts. Fields that "kubectl
apply" without --server-side owns are taken over, as "kubectl apply --server-side" does.

Exit codes: 0 done (or nothing refused in a dry run), 1 error, 2 a CRD was refused or changed meanwhile, 3 the API servers do
not agree or the evidence is too weak, 4 some objects could not be rewritten or moved, 130 interrupted.`,
		Example: `  kube-migrator upgrade-crd -f crds.yaml --dry-run
  kube-migrator upgrade-crd -f config/crd/
  kustomize build https://github.com/kubernetes-sigs/gateway-api/config/crd | kube-migrator upgrade-crd -f -`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := u.check(); err != nil {
				return err
			}
			return u.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				u.gentle = gentle
				return u.run(ctx)
			})
		},
	}
	u.add(u.command.Flags())
	return u.command
}

func (u *crdUpgrade) add(flags *pflag.FlagSet) {
	flags.StringSliceVarP(&u.files, "filename", "f", nil,
		"File or folder with CustomResourceDefinitions; - is standard input")
	flags.StringVar(&u.manager, "field-manager", crdlife.DefaultFieldManager,
		"Field manager that owns what is applied")
	flags.BoolVar(&u.force, "force-conflicts", false, "Take fields from other field managers")
	flags.BoolVar(&u.dryRun, "dry-run", false,
		"Show the steps, let the API server check the first write, and change nothing")
	flags.StringSliceVar(&u.accepted, "accept-field-loss", nil,
		"Name of a CustomResourceDefinition whose objects may lose fields that the new release does not have")
	flags.StringSliceVar(&u.unrelated, "accept-other-meaning", nil, "Name of a CustomResourceDefinition of which no version "+
		"is in both releases: its objects get another apiVersion, whatever their fields mean there")
	flags.BoolVar(&u.leaveOwners, "leave-owners", false, "Go on although ownerReferences name, or may name, a version that "+
		"will not be served")
	u.addSweep(flags)
	arg.Output(flags, &u.output, render.Text, render.JSON, render.YAML)
}

// check returns an error for flags that contradict one another. It sends no request.
func (u *crdUpgrade) check() error {
	switch {
	case len(u.files) == 0:
		return arg.Missing(u.command, "filename")
	case u.manager == "":
		return arg.Invalid(u.command, "field-manager", "", "a name")
	}
	u.keep, u.options.Resume = true, true // the CRD is pruned in a step of its own
	arg.CompleteShutdownDelay(u.command, u.options.SettleTime, &u.shutdownDelay)
	return nil
}

// run reads the files, makes the plans, carries them out, and shows the report.
func (u *crdUpgrade) run(ctx context.Context) error {
	if err := u.read(); err != nil {
		return err
	}
	if err := u.reach(); err != nil {
		return err
	}
	if err := u.identify(ctx); err != nil {
		return err
	}
	u.report = &render.CRDUpgrades{DryRun: u.dryRun}
	steps := u.steps()
	if err := steps.Plan(ctx, u.all); err != nil {
		return err
	}
	if u.dryRun {
		for _, one := range u.all {
			steps.Check(ctx, one)
		}
	} else {
		steps.Do(ctx, u.all)
	}
	return u.show()
}

// read reads the CRDs in the files. It is an error if a CRD occurs twice, because only the user knows which one to
// apply.
func (u *crdUpgrade) read() error {
	objects, others, err := readCRDs(u.command, u.In, u.files)
	if err != nil {
		return err
	}
	if others > 0 {
		fmt.Fprintf(u.Err, "Skipped: %d objects that are not CustomResourceDefinitions.\n", others)
	}
	for _, object := range objects {
		next, err := crdlife.Parse(object.From, object.JSON)
		if err != nil {
			return exit.Usage(u.command, fmt.Errorf("%s: %w", object.From, err))
		}
		same := func(other *crdlife.Upgrade) bool { return other.Next.Name() == next.Name() }
		if i := slices.IndexFunc(u.all, same); i >= 0 {
			return exit.Usage(u.command, fmt.Errorf("%s is in %s and in %s: give one of them", next.Name(),
				u.all[i].Next.From, next.From))
		}
		u.all = append(u.all, &crdlife.Upgrade{Next: next})
	}
	for flag, names := range map[string][]string{"accept-field-loss": u.accepted, "accept-other-meaning": u.unrelated} {
		for _, name := range names {
			if !slices.ContainsFunc(u.all, func(one *crdlife.Upgrade) bool { return one.Next.Name() == name }) {
				return arg.Invalid(u.command, flag, name, "the name of a CustomResourceDefinition in the files")
			}
		}
	}
	return nil
}

// steps returns the execution of the plans.
func (u *crdUpgrade) steps() *crdlife.Run {
	find := finder(u.Client, u.stopped)
	if u.leaveOwners {
		find = nil
	}
	return &crdlife.Run{
		Applier: crdlife.Applier{Client: u.REST, FieldManager: u.manager, Force: u.force},
		Intent: crdlife.Intent{Program: u.name, Again: u.inEarnest(), AcceptFieldLoss: u.accepted,
			AcceptOtherMeaning: u.unrelated},
		Limits:         u.limits(),
		Stopped:        u.stopped,
		FindDependents: find,
		Migrate: func(ctx context.Context, live *crdlife.CRD, acceptFieldLoss []string) (migrate.Epoch, error) {
			r, m := resourceOfCRD(live), u.migration
			m.options.AcceptFieldLoss = acceptFieldLoss
			if err := u.alone(ctx, r); err != nil {
				return migrate.Epoch{}, err
			}
			report, err := m.migrate(ctx, r)
			report.Next = "" // the command in the report continues this, too
			u.report.Add(live.Name(), report)
			return report.Result.Epoch, err
		},
		Report: func(name string, s crdlife.Step) {
			if u.output == render.Text {
				fmt.Fprint(u.Out, render.CRDStep(name, s))
			} else {
				fmt.Fprint(u.Err, render.CRDStep(name, s))
			}
		},
	}
}

// resourceOfCRD returns the resource of a CRD as the inventory shows it when the API server serves it.
func resourceOfCRD(live *crdlife.CRD) inventory.Resource {
	return inventory.Resource{
		GroupResource: live.Resource(), Kind: live.Spec.Names.Kind, Namespaced: live.Spec.Scope == "Namespaced",
		Origin:         migrate.Custom,
		StorageVersion: schema.GroupVersion{Group: live.Spec.Group, Version: live.StorageVersion()},
		Endpoint:       live.Endpoint(),
		CRD: &inventory.CRD{
			Name: live.Name(), UID: live.Metadata.UID, Generation: live.Metadata.Generation,
			StorageVersion: live.StorageVersion(),
			StoredVersions: live.Status.StoredVersions, Versions: live.VersionNames(),
			Conversion: live.Spec.Conversion.Strategy,
		},
	}
}

// noticed bounds how long the controller of an installation takes to request a migration after a CRD has changed.
const noticed = 10 * time.Second

// alone waits while the controller of an installation migrates the resource or is about to (I8). The controller notices
// every change of a CRD.
func (u *crdUpgrade) alone(ctx context.Context, r inventory.Resource) error {
	switch migrates, err := u.migrating(r.GroupResource); {
	case err != nil:
		return err
	case migrates:
		return fmt.Errorf("%s is migrating %s", retire.ThisMachine, r.GroupResource)
	}
	recorded, err := u.recorded(ctx, r)
	if err != nil {
		return err
	}
	patient := time.Now()
	if recorded {
		patient = patient.Add(noticed)
	}
	for announced := false; ; {
		names, err := u.wanted(ctx, r)
		if err != nil {
			return err
		}
		if len(names) == 0 && !time.Now().Before(patient) {
			return nil
		}
		if len(names) > 0 && !announced {
			fmt.Fprintf(u.Err, "Waiting for %s\n", strings.Join(names, ", "))
			announced = true
		}
		if err := u.stopped(); err != nil {
			return err
		}
		if pace.Sleep(ctx, time.Second) != nil {
			return ctx.Err()
		}
	}
}

// recorded reports whether a controller keeps a StorageState of the resource.
func (u *crdUpgrade) recorded(ctx context.Context, r inventory.Resource) (bool, error) {
	path, err := apipath.Join(records.StatesPath, r.GroupResource.String())
	if err != nil {
		return false, err
	}
	var state v1alpha1.StorageState
	err = u.Send(ctx, u.REST.Get().AbsPath(path), &state)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// wanted returns the names of the unfinished migrations of the resource. It returns none if no migration has been
// written for so long that perhaps no controller is running.
func (u *crdUpgrade) wanted(ctx context.Context, r inventory.Resource) (names []string, err error) {
	all, err := u.List(ctx)
	if apierrors.IsForbidden(err) || errors.Is(err, records.ErrNotInstalled) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if untouched(all, time.Now()) >= longQuiet {
		return nil, nil
	}
	for _, m := range records.Matches(all, records.IsAbout(r)) {
		if isWanted(&m) {
			names = append(names, records.MigrationPrefix+m.Name)
		}
	}
	return names, nil
}

// show writes the report, and returns the exit code as an error.
func (u *crdUpgrade) show() error {
	code := exit.Done
	for _, one := range u.all {
		err := one.Err
		if err == nil && !one.Finished && !u.dryRun {
			err = migrate.ErrStopped
		}
		u.report.Conclude(one, err, u.next(err))
		code = exit.Worse(code, upgradeCRDCode(err))
	}
	if err := writeReport(u.Out, u.output, u.report); err != nil {
		return err
	}
	if code != exit.Done {
		return exit.Code(code)
	}
	return nil
}

// next returns the command that helps after an error.
func (u *crdUpgrade) next(err error) string {
	refused, lacking := (*refusal.Error)(nil), (*access.ForbiddenError)(nil)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Try
	case errors.As(err, &lacking):
		return lacking.Try()
	case apierrors.IsForbidden(err):
		return "kubectl auth can-i --list"
	}
	return u.inEarnest()
}

// upgradeCRDCode returns the exit code for the error about one CRD.
func upgradeCRDCode(err error) int {
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return exit.WorkLeft
	}
	return retireCode(err)
}
