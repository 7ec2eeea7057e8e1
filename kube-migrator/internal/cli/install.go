// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/shell"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// defaultInstallTimeout bounds each wait of install and uninstall.
const defaultInstallTimeout = 5 * time.Minute

func newInstallCommand(env *environment) *cobra.Command {
	f := &installFlags{}
	command := &cobra.Command{
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
patch these: an administrator migrates them with kube-migrator migrate. docs/guard.md describes what the guard enforces.

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
			if _, err := f.complete(command); err != nil { // before the first request
				return err
			}
			return env.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				ctx, stop := untilInterrupted(ctx, gentle)
				defer stop()
				return env.install(ctx, command, f)
			})
		},
	}
	f.add(command.Flags())
	return command
}

// install gathers the remembered flags and the resources that may be migrated, plans the objects, and applies them.
func (env *environment) install(ctx context.Context, command *cobra.Command, f *installFlags) error {
	config, err := env.config()
	if err != nil {
		return err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return err
	}
	if err := env.recall(ctx, command, f, client); err != nil {
		return err
	}
	o, err := f.complete(command)
	if err != nil {
		return err
	}
	if o.Guard, err = env.guarded(ctx, command, f, client, o); err != nil {
		return err
	}
	var resources []schema.GroupResource
	var known *inventory.Inventory
	var unseen []string
	if o.Names() {
		resources, known, unseen, err = env.includedResources(ctx, command, o, config, client)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return env.explainInstall(ctx, command, o.Namespace, err)
	case err != nil:
		return err
	}
	plan, err := install.Plan(o, resources, known)
	if err != nil {
		return err
	}
	if f.export {
		manifests, err := f.manifests(plan)
		if err != nil {
			return err
		}
		if _, err = env.Out.Write(manifests); err != nil {
			return fmt.Errorf("write manifests: %w", err)
		}
		env.warnOfImage(o)
		return env.seenEnough(command, unseen)
	}
	shown := render.NewChanges(env.Out, f.output, f.dryRun)
	installation := &install.Installation{
		Client: client, Mode: mode(f.dryRun), Adopt: f.adopt, TrustNamespace: f.trust, Timeout: f.timeout,
		Report: shown.Add, Progress: env.waiting,
		Difference: func(text string) { fmt.Fprintln(env.Err, "Upgrade: "+text) },
		Warn:       func(text string) { fmt.Fprintln(env.Err, "Warning: "+text) },
	}
	err = installation.Run(ctx, plan)
	if err == nil && f.dryRun == dryRunNone && f.wait {
		err = installation.Rollout(ctx, o.Namespace)
	}
	if failure := shown.End(err); failure != nil {
		return failure
	}
	if err != nil {
		return env.explainInstall(ctx, command, o.Namespace, err)
	}
	env.warnOfImage(o)
	if err := env.warnOfRestarts(ctx, command, o, env.records(config, client)); err != nil {
		return err
	}
	if f.dryRun != dryRunNone {
		return env.seenEnough(command, unseen)
	}
	what := "all resources, also those that come later"
	if !o.All() {
		what = fmt.Sprintf("%d resources", len(resources))
	}
	fmt.Fprintf(env.Err, "kube-migrator is installed in the namespace %s and may migrate %s.\n", o.Namespace, what)
	if o.Guard {
		fmt.Fprintf(env.Err, "The guard keeps its workers from changing anything. It cannot cover admission policies "+
			"themselves: an administrator migrates them.\n"+
			"To migrate them: %s migrate --all --include='*admissionpolic*'\n", env.name)
	}
	return env.seenEnough(command, unseen)
}

// manifests returns objects in the format that a tool such as kubectl apply reads.
func (f *installFlags) manifests(plan []*unstructured.Unstructured) ([]byte, error) {
	if f.output == render.JSON {
		return install.JSON(plan)
	}
	return install.YAML(plan)
}

// forgetAll is the value of --forget-flags that stands for every flag.
const forgetAll = "all"

// recall sets the flags that the user gave to the last installation and not to this one, and reports them. It sends no
// request if all of them are to be forgotten.
func (env *environment) recall(ctx context.Context, command *cobra.Command, f *installFlags,
	client rest.Interface) error {
	if slices.Contains(f.forget, forgetAll) {
		return nil
	}
	known, err := install.Remembered(ctx, client)
	switch forbidden := (*access.ForbiddenError)(nil); {
	case err != nil && (ctx.Err() != nil || errors.As(err, &forbidden)):
		return env.explainInstall(ctx, command, f.options.Namespace, err)
	case err != nil:
		return exit.Try(fmt.Errorf("read the flags of the last installation: %w", err),
			"kubectl get configmap -n kube-system kube-migrator-flags -o yaml")
	}
	var kept []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		flag := f.remembered.Lookup(name)
		switch {
		case flag == nil:
			fmt.Fprintf(env.Err, "Warning: the last installation was given --%s, which this version does not have.\n",
				name)
		case flag.Changed || slices.Contains(f.forget, name):
		case command.Flags().Set(name, known[name]) != nil:
			return exit.Try(fmt.Errorf("the remembered value of --%s is %q, which cannot be read", name, known[name]),
				env.sameAgain(command, "--forget-flags="+name))
		default:
			kept = append(kept, shell.Quote("--"+name+"="+known[name]))
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(env.Err, "Kept from the last installation: %s\n", strings.Join(kept, " "))
	}
	return nil
}

// explainInstall turns an error of install or uninstall into the two lines of every error.
func (env *environment) explainInstall(ctx context.Context, command *cobra.Command, namespace string, err error) error {
	forbidden, foreign, late, leaving := (*access.ForbiddenError)(nil), (*install.ForeignError)(nil),
		(*install.TimeoutError)(nil), (*install.LeavingError)(nil)
	untrusted := (*install.UntrustedNamespaceError)(nil)
	switch {
	case ctx.Err() != nil:
		return exit.TryCode(errors.New("interrupted; the same command goes on where it was"),
			env.sameAgain(command), exit.Interrupted)
	case errors.As(err, &forbidden):
		return exit.Try(err, forbidden.Try())
	case errors.As(err, &leaving):
		return exit.Try(err, "kubectl get "+leaving.Resource.String()+" "+leaving.Name)
	case errors.As(err, &foreign) && len(foreign.Namespaces) > 0, errors.As(err, &untrusted):
		return exit.Try(err, env.sameAgain(command, "--adopt", "--trust-namespace"))
	case errors.As(err, &foreign):
		return exit.Try(err, env.sameAgain(command, "--adopt"))
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
		return exit.Try(err, env.name+" uninstall")
	}
	return exit.Try(err, command.CommandPath()+" --dry-run=server")
}

// sameAgain returns this command line with further arguments.
func (env *environment) sameAgain(command *cobra.Command, arguments ...string) string {
	for _, name := range []string{"include", "exclude"} { // again omits the flags that select
		patterns, _ := command.Flags().GetStringSlice(name)
		for _, pattern := range patterns {
			arguments = append(arguments, "--"+name+"="+pattern)
		}
	}
	return (&migration{env: env, command: command}).again(arguments...)
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

func (env *environment) waiting(state string) {
	fmt.Fprintln(env.Err, "Waiting: "+strings.Join(strings.Fields(state), " "))
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
