// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// defaultInstallTimeout bounds each wait of install and uninstall.
const defaultInstallTimeout = 5 * time.Minute

// installCommand is the command install and its flags.
type installCommand struct {
	setup
	options install.Options
	// remembered are the flags that describe the installation; a later installation uses them as defaults.
	remembered *pflag.FlagSet
	forget     []string

	trigger bool
	dryRun  string
	export  bool
	adopt   bool
	trust   bool
	wait    bool
	timeout time.Duration
	output  render.Format
}

func newInstallCommand(env *environment) *cobra.Command {
	c := &installCommand{setup: setup{environment: env}}
	c.command = &cobra.Command{
		Use:   "install",
		Short: "Install the controller into the cluster, or upgrade it",
		Long: `Install the controller of kube-migrator into the cluster of the kubeconfig: CRDs, namespace, ServiceAccounts, roles, its own
share of the API server (PriorityLevelConfiguration and FlowSchema), NetworkPolicy, PodDisruptionBudget and Deployment.
install applies each object with server-side apply, and reports the outcome: created, configured or unchanged. To upgrade,
run install again; an older controller that cannot be changed into the new one is deleted first.

The flags that describe the installation are remembered in the ConfigMap kube-migrator-flags in kube-system. A later install
starts from them, says which ones it keeps, and how the controller changes. --image is one of them, so give the new one when
you upgrade. A flag that is given replaces the remembered one. --forget-flags=exclude,replicas resets these flags to their
defaults, and --forget-flags=all resets all. --adopt, --dry-run, --export, --output, --timeout, --trust-namespace and --wait
are not remembered.

By default the workers may get, list and patch all resources, also those that are added later, and admission policies
(ValidatingAdmissionPolicies), called the guard, reject every request of a worker that would change anything but its own
reports. The guard also rejects reports and Jobs that anyone but kube-migrator writes. The roles name each resource; the
controller adds those that come later, and one of the policies bounds what it may add. Workers can still read what they
migrate, including Secrets. Policies cannot guard the four resources of admission policies themselves, so workers may not
patch these: install migrates them with your credentials once the controller is rolled out, unless --auto-trigger=false,
--bootstrap=none or --wait=false is given. That takes as long as the API servers must have agreed, the settle time, or
twice as long where not each of them can be asked. docs/guard.md describes what the guard enforces.

There is no guard with --guard=false, and on API servers before 1.30. Without --include and --exclude the workers' role then
covers everything, including subresources, and a worker's token is worth nearly as much as an administrator's: get on
nodes/proxy reaches into every container, and patch on a Deployment or a role binding changes what others run and may do.
kube-migrator itself only sends empty patches, and only reads metadata.

--include and --exclude accept patterns of full names, and narrow what is migrated and what is granted: the roles then name
each resource that exists now, and grant a worker nothing else. If a resource is added later and the patterns include it, it
cannot be migrated until install is run again: the controller requests no migration, and reports that by the condition
Permitted of the StorageState, by an Event and by the metric kube_migrator_forbidden. If discovery cannot show a group now,
such as that of an aggregated API server that is down, the roles keep what they granted for it before.

--export writes the manifests to stdout for a tool that applies them, and changes nothing. It reads the remembered flags
from the cluster and, unless the roles cover everything, the resources. With --forget-flags=all, --guard=false and neither
--include nor --exclude it needs no cluster.

install refuses to replace CRDs of the same names that belong to kube-storage-version-migrator or OpenShift. --adopt takes
them over with their objects; the workloads of the other installation keep running, and you must stop them.

install also refuses to use a namespace that it has not created. With --adopt and --trust-namespace it uses the namespace,
and uninstall never deletes it. Anyone who may create pods or edit workloads in that namespace can start a pod with the
worker's ServiceAccount: give --trust-namespace only if they may all have the permissions of the worker.

Exit codes: 0 done; 1 error; 3 done, but a part of discovery could not be read; 130 interrupted. It is safe to run install
again after any error.`,
		Example: `  kube-migrator install --image registry.example.com/kube-migrator:v1.0.0
  kube-migrator install --include '*.demo.example.com' --dry-run=server
  kube-migrator install --image registry.example.com/kube-migrator:v1.1.0    # an upgrade; the other flags stay
  kube-migrator install --export > kube-migrator.yaml`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if _, err := c.complete(); err != nil { // before the first request
				return err
			}
			return c.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				ctx, stop := untilInterrupted(ctx, gentle)
				defer stop()
				return c.run(ctx)
			})
		},
	}
	c.add(c.command.Flags())
	return c.command
}

// run gathers the remembered flags and the resources that may be migrated, plans the objects, and applies them.
func (c *installCommand) run(ctx context.Context) error {
	q, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.recall(ctx, q.REST); err != nil {
		return err
	}
	o, err := c.complete()
	if err != nil {
		return err
	}
	if o.Guard, err = c.guarded(ctx, q.REST, o); err != nil {
		return err
	}
	var resources []schema.GroupResource
	var known *inventory.Inventory
	var unseen []string
	if o.Names() {
		resources, known, unseen, err = c.includedResources(ctx, q, o)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return c.explained(ctx, o.Namespace, err)
	case err != nil:
		return err
	}
	plan, err := install.Plan(o, resources, known)
	if err != nil {
		return err
	}
	if c.export {
		manifests, err := c.manifests(plan)
		if err != nil {
			return err
		}
		if _, err = c.Out.Write(manifests); err != nil {
			return fmt.Errorf("write manifests: %w", err)
		}
		c.warnOfImage(o)
		return c.seenEnough(unseen)
	}
	shown := render.NewChanges(c.Out, c.output, c.dryRun)
	installation := &install.Installation{
		Client: q.REST, Mode: mode(c.dryRun), Adopt: c.adopt, TrustNamespace: c.trust, Timeout: c.timeout,
		Report: shown.Add, Progress: c.waiting,
		Difference: func(text string) { fmt.Fprintln(c.Err, "Upgrade: "+text) },
		Warn:       func(text string) { fmt.Fprintln(c.Err, "Warning: "+text) },
	}
	err = installation.Run(ctx, plan)
	if err == nil && c.dryRun == dryRunNone && c.wait {
		err = installation.Rollout(ctx, o.Namespace)
	}
	if failure := shown.End(err); failure != nil {
		return failure
	}
	if err != nil {
		return c.explained(ctx, o.Namespace, err)
	}
	c.warnOfImage(o)
	if c.dryRun != dryRunNone {
		return c.seenEnough(unseen)
	}
	what := "all resources, also those that come later"
	if !o.All() {
		what = fmt.Sprintf("%d resources", len(resources))
	}
	fmt.Fprintf(c.Err, "kube-migrator is installed in the namespace %s and may migrate %s.\n", o.Namespace, what)
	if o.Guard {
		fmt.Fprintln(c.Err, "The guard keeps its workers from changing anything.")
		if err := c.migrateExempt(ctx, installation, o, resources); err != nil {
			return err
		}
	}
	return c.seenEnough(unseen)
}

// migrateExempt migrates, with the credentials of the user, those of the resources that the guard cannot cover, so that
// the workers may not patch them (docs/adr/0035-install-migrates-admission-policies.md). It returns an error only if it
// is interrupted: kube-migrator is installed, and progress and check say what is left.
func (c *installCommand) migrateExempt(ctx context.Context, installation *install.Installation, o install.Options,
	resources []schema.GroupResource) error {
	var names []string
	for _, r := range resources {
		if inventory.ExemptFromPolicies(r) {
			names = append(names, r.String())
		}
	}
	if len(names) == 0 {
		return nil
	}
	try := c.name + " migrate --all --include='*admissionpolic*'"
	if !c.wait || o.RecordOnly || o.Bootstrap == install.BootstrapNone {
		fmt.Fprintf(c.Err, "It cannot cover admission policies themselves: an administrator migrates them.\n"+
			"To migrate them: %s\n", try)
		return nil
	}
	fmt.Fprintln(c.Err, "It cannot cover admission policies themselves: they are migrated now, with your credentials.")
	problem := installation.Recorded(ctx, names)
	if problem == nil {
		problem = c.migrateNow(ctx, o, names)
	}
	switch {
	case ctx.Err() != nil:
		return c.explained(ctx, o.Namespace, problem)
	case problem != nil:
		fmt.Fprintf(c.Err, "Warning: kube-migrator is installed, but it is not recorded that all admission policies are "+
			"stored in the current version: %v.\nTo migrate them: %s\n", exit.OneLine(problem), try)
		return nil
	}
	fmt.Fprintf(c.Err, "All admission policies are stored in the current version. When an upgrade of Kubernetes changes "+
		"it, progress says so.\nTo migrate them then: %s\n", try)
	return nil
}

// migrateNow migrates resources as the command migrate does. It returns an error unless the proof of each is recorded.
func (c *installCommand) migrateNow(ctx context.Context, o install.Options, names []string) error {
	m := newMigrate(c.environment)
	m.selection.Include = names
	m.options.SettleTime, m.shutdownDelay, m.options.MinEvidence = o.SettleTime, o.ShutdownDelay, o.MinEvidence
	m.options.AgreementTimeout = c.timeout
	report, err := m.migrateAll(ctx)
	if report == nil {
		return err
	}
	for _, r := range report.Resources {
		if why := cmp.Or(r.Error, r.StorageStateKept); why != "" {
			return fmt.Errorf("%s: %s", r.Resource, why)
		}
	}
	return err
}

// manifests returns objects in the format that a tool such as kubectl apply reads.
func (c *installCommand) manifests(plan []*unstructured.Unstructured) ([]byte, error) {
	if c.output == render.JSON {
		return install.JSON(plan)
	}
	return install.YAML(plan)
}

// forgetAll is the value of --forget-flags that stands for every flag.
const forgetAll = "all"

// recall sets the flags that the user gave to the last installation and not to this one, and reports them. It sends no
// request if all of them are to be forgotten.
func (c *installCommand) recall(ctx context.Context, client rest.Interface) error {
	if slices.Contains(c.forget, forgetAll) {
		return nil
	}
	known, err := install.Remembered(ctx, client)
	switch forbidden := (*access.ForbiddenError)(nil); {
	case err != nil && (ctx.Err() != nil || errors.As(err, &forbidden)):
		return c.explained(ctx, c.options.Namespace, err)
	case err != nil:
		return exit.Try(fmt.Errorf("read the flags of the last installation: %w", err),
			"kubectl get configmap -n kube-system kube-migrator-flags -o yaml")
	}
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		flag := c.remembered.Lookup(name)
		switch {
		case flag == nil:
			fmt.Fprintf(c.Err, "Warning: the last installation was given --%s, which this version does not have.\n",
				name)
		case flag.Changed || slices.Contains(c.forget, name):
		case c.command.Flags().Set(name, known[name]) != nil:
			return exit.Try(fmt.Errorf("the remembered value of --%s is %q, which cannot be read", name, known[name]),
				c.again("--forget-flags="+name))
		default:
			kept = append(kept, shell.Quote("--"+name+"="+known[name]))
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(c.Err, "Kept from the last installation: %s\n", strings.Join(kept, " "))
	}
	return nil
}

// setup is what install and uninstall have in common.
type setup struct {
	*environment
	command *cobra.Command
}

// explained turns an error of install or uninstall into the two lines of every error.
func (c *setup) explained(ctx context.Context, namespace string, err error) error {
	forbidden, foreign, late, leaving := (*access.ForbiddenError)(nil), (*install.ForeignError)(nil),
		(*install.TimeoutError)(nil), (*install.LeavingError)(nil)
	untrusted := (*install.UntrustedNamespaceError)(nil)
	switch {
	case ctx.Err() != nil:
		return exit.TryCode(errors.New("interrupted; the same command goes on where it was"),
			c.again(), exit.Interrupted)
	case errors.As(err, &forbidden):
		return exit.Try(err, forbidden.Try())
	case errors.As(err, &leaving):
		return exit.Try(err, "kubectl get "+leaving.Resource.String()+" "+leaving.Name)
	case errors.As(err, &foreign) && len(foreign.Namespaces) > 0, errors.As(err, &untrusted):
		return exit.Try(err, c.again("--adopt", "--trust-namespace"))
	case errors.As(err, &foreign):
		return exit.Try(err, c.again("--adopt"))
	case errors.As(err, &late) && namespace != "":
		return exit.Try(err, "kubectl -n "+namespace+" describe pods")
	case errors.As(err, &late):
		return exit.Try(err, "kubectl get namespaces,pods --all-namespaces -l app.kubernetes.io/name="+install.Name)
	case isEscalation(err):
		// The API server lists every rule that is missing, which may be hundreds.
		return exit.Try(errors.New("forbidden: to grant the permissions of the roles you need all of them, or the "+
			"verb escalate "+
			"on clusterroles.rbac.authorization.k8s.io and roles.rbac.authorization.k8s.io"),
			"kubectl auth can-i escalate clusterroles.rbac.authorization.k8s.io")
	case errors.Is(err, install.ErrInUse):
		return exit.Try(err, c.name+" uninstall")
	}
	return exit.Try(err, c.command.CommandPath()+" --dry-run=server")
}

// again returns this command line with further arguments.
func (c *setup) again(arguments ...string) string {
	for _, name := range []string{"include", "exclude"} { // again omits the flags that select
		patterns, _ := c.command.Flags().GetStringSlice(name)
		for _, pattern := range patterns {
			arguments = append(arguments, "--"+name+"="+pattern)
		}
	}
	return again(c.environment, c.command, arguments...)
}

// isEscalation reports whether the API server rejected a role because the user lacks its permissions.
func isEscalation(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "attempting to grant")
}

// mode translates the flag.
func mode(dryRun string) install.Mode {
	switch dryRun {
	case dryRunServer:
		return install.DryRunServer
	case dryRunClient:
		return install.DryRunClient
	}
	return install.Write
}

// waiting says what install and uninstall wait for.
func (c *setup) waiting(state string) {
	fmt.Fprintln(c.Err, "Waiting: "+strings.Join(strings.Fields(state), " "))
}

// untilInterrupted returns a context that ends with the first interrupt, because an interrupted installation can be
// repeated.
func untilInterrupted(ctx context.Context, gentle <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		select {
		case <-gentle:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); listener.Wait() }
}
