// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
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

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// addPace adds the bounds of the load that install hands on to the controller.
func addPace(flags *pflag.FlagSet, into *v1alpha1.Pace) {
	numberVar(flags, &into.MaxObjectsPerSecond, "max-rate", 0,
		within[int32]{most: v1alpha1.MostObjectsPerSecond, unit: objectsPerSecond},
		"Most objects per second of a migration that the controller asks for by itself, unless the migration has a "+
			"bound already (0: as many as the API servers bear)")
	numberVar(flags, &into.MaxInFlight, "max-in-flight", 0,
		within[int32]{most: v1alpha1.MostInFlight, unit: "requests"},
		"Most requests in flight of such a migration (0: 32)")
	bandwidthVar(flags, &into.MaxBytesPerSecond,
		"Most bytes per second of such a migration, requests and answers together, such as 500k or 10Mi (0: no bound)")
}

// defaultInstallTimeout bounds each wait of install and uninstall.
const defaultInstallTimeout = 5 * time.Minute

// installFlags are the flags of install.
type installFlags struct {
	options install.Options
	// remembered are the flags that say what is installed, and that a later installation starts from.
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
	f := &installFlags{}
	command := &cobra.Command{
		Use:   "install",
		Short: "Put the controller into the cluster, or upgrade it",
		Long: `Put the controller of kube-migrator into the cluster of the kubeconfig: CRDs, namespace, ServiceAccounts, roles,
its own share of the API server (PriorityLevelConfiguration and FlowSchema), NetworkPolicy, PodDisruptionBudget and
Deployment. Each is applied with server-side apply, and the command reports the outcome: created, configured or unchanged.
Running it again upgrades; an older controller that cannot be changed into the new one is deleted first.

The flags that say what is installed are remembered in the ConfigMap kube-migrator-flags in kube-system, and a later install
starts from them: it says which stay, and how the controller changes. --image is one of them, so that an upgrade gives the new
one. A flag that is given replaces the remembered one; --forget-flags=exclude,replicas takes the defaults of these again, and
--forget-flags=all those of all. --adopt, --dry-run, --export, --output, --timeout, --trust-namespace and --wait are not remembered.

By default the workers may get, list and patch all resources, also those that come later, and a guard of admission policies
(ValidatingAdmissionPolicies) refuses every request of a worker that would change anything but its own reports. It also refuses
reports and Jobs that others than kube-migrator write. The roles name each resource; the controller adds those that come later,
and one of the policies bounds what it may add. Workers can still read what they migrate, Secrets included. Policies cannot
guard the four resources of admission policies themselves, so workers may not patch these: an administrator migrates them by
hand, with kube-migrator migrate. docs/guard.md says what the guard enforces.

With --guard=false, with --workers=in-process and on API servers before 1.30, there is no guard. Without --include and --exclude
the workers' role is then for everything, which includes subresources: a worker's token is worth nearly as much as an
administrator's. The get of nodes/proxy reaches into every container, the patch of a Deployment or a role binding changes what
others run and may do. kube-migrator itself sends nothing but empty patches, and only reads metadata.

--include and --exclude take patterns of full names, and narrow what is migrated and what is granted: the roles then name each
resource that there is now, and a worker may do nothing with others. A resource that comes later and that the patterns include
cannot be migrated until install is run again: the controller then asks for no migration and says so, by the condition
Permitted of the StorageState, by an Event and by the metric kube_migrator_forbidden. Of a group that discovery cannot show
now, such as that of an aggregated API server that is down, what the roles named before stays.

--export writes the manifests to stdout for a tool that applies them, and changes nothing. It reads the remembered flags and,
unless the roles are for everything, the resources from the cluster; with --forget-flags=all, --guard=false and neither
--include nor --exclude it needs no cluster.

CRDs of the same names that belong to kube-storage-version-migrator or OpenShift are refused. --adopt takes them over with their
objects; the workloads of the other installation are left alone, and must be stopped.

A namespace that exists and that install has not made is refused as well. With --adopt and --trust-namespace it is used, and uninstall
never deletes it. Give --trust-namespace only if you would give everyone who may create pods or edit workloads in that namespace the
permissions of the worker: whoever can start a pod there can let it run as the worker's ServiceAccount.

Exit codes: 0 done; 1 error; 3 done, but a part of discovery could not be read; 130 interrupted. It may be repeated after
any error.`,
		Example: `  kube-migrator install --image registry.example.com/kube-migrator:v1.0.0
  kube-migrator install --include '*.demo.example.com' --dry-run=server
  kube-migrator install --image registry.example.com/kube-migrator:v1.1.0    # an upgrade; the other flags stay
  kube-migrator install --export > kube-migrator.yaml`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if _, err := f.complete(command); err != nil { // before anything is sent
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

func (f *installFlags) add(all *pflag.FlagSet) {
	f.remembered = pflag.NewFlagSet("install", pflag.ContinueOnError)
	flags := f.remembered
	flags.StringVarP(&f.options.Namespace, "namespace", "n", install.DefaultNamespace,
		"Namespace of the controller and its workers; made if it does not exist")
	flags.StringVar(&f.options.Image, "image", "", "Image of the controller and its workers, best by digest "+
		"(default: that of this release, by digest; of a build of your own, localhost/kube-migrator:VERSION, which "+
		"has to be on every node)")
	wordVar(flags, &f.options.ImagePullPolicy, "image-pull-policy", "IfNotPresent", "Always, IfNotPresent or Never",
		"Always", "IfNotPresent", "Never")
	numberVar(flags, &f.options.Replicas, "replicas", install.DefaultReplicas,
		within[int32]{least: 1, unit: "replicas"}, "Replicas of the controller, of which one is active")
	wordVar(flags, &f.options.Workers, "workers", install.Jobs,
		"Where sweeps run. jobs: in a Job, one after the other; in-process: in the controller, which then gets the "+
			"permissions of the workers", install.Jobs, install.InProcess)
	flags.BoolVar(&f.trigger, "auto-trigger", true,
		"Let the controller ask for a migration where a resource may be stored in more than its current version; "+
			"false: only record that")
	durationVar(flags, &f.options.DiscoveryPeriod, "discovery-period", trigger.DefaultPeriod, time.Second,
		"How often the controller asks all API servers what they store when nothing moves")
	wordVar(flags, &f.options.Bootstrap, "bootstrap", install.BootstrapAll,
		"What the controller requests when it starts. all: a migration of every included resource that has none; none",
		install.BootstrapAll, install.BootstrapNone)
	flags.BoolVar(&f.options.Guard, "guard", true,
		"Let admission policies see to it that the workers change nothing. Where it is not given: true if the API server "+
			"serves ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1 and workers are jobs")
	flags.StringSliceVar(&f.options.Include, "include", nil,
		"Resources that may be migrated, by a pattern of full names, such as '*.demo.example.com' (default: all, "+
			"also those that come later)")
	flags.StringSliceVar(&f.options.Exclude, "exclude", nil,
		"Resources that may not be migrated, by a pattern of full names")
	evidenceVar(flags, &f.options.MinEvidence)
	durationVar(flags, &f.options.SettleTime, settleTime, migrate.DefaultSettleTime, time.Nanosecond, settleTimeUsage)
	addShutdownDelay(flags, &f.options.ShutdownDelay)
	addPace(flags, &f.options.Pace)
	numberVar(flags, &f.options.MaxConcurrentMigrations, "max-concurrent-migrations", 1,
		within[int]{least: 1, unit: "migrations"}, "Most sweeps at one time in the cluster")
	flags.StringSliceVar(&f.options.MetricsFromNamespaces, "metrics-from-namespace", nil,
		"Namespaces whose pods may connect to the port of the metrics, by the NetworkPolicy "+
			"(default: everyone may connect; scrapers authenticate anyway)")
	flags.StringVar(&f.options.MetricsCertSecret, "metrics-cert-secret", "",
		"Secret of the type kubernetes.io/tls in the namespace, "+
			"with the certificate for metrics; read again when it changes (default: a self-signed certificate)")
	flags.StringSliceVar(&f.options.EgressTo, "egress-to", nil, "Where the controller and its workers may connect to, "+
		"by the NetworkPolicy: blocks of addresses such as 10.0.0.0/8 or 192.0.2.0/28:6443. It takes the API servers, "+
		"each at its own address, and the pods of aggregated API servers (default: every address)")
	all.AddFlagSet(f.remembered)
	flags = all
	flags.StringSliceVar(&f.forget, "forget-flags", nil,
		"Names of flags that take their defaults again, not the remembered values; all: every flag that is not given")
	dryRunVar(flags, &f.dryRun, "show what would be applied", "let the API server check all of it and change nothing")
	flags.BoolVar(&f.export, "export", false,
		"Write the manifests to stdout and change nothing: as YAML documents, or with -o json as a List")
	flags.BoolVar(&f.adopt, "adopt", false, "Take over CRDs of another installation with their objects, "+
		"and use a namespace that exists (with --trust-namespace)")
	flags.BoolVar(&f.trust, "trust-namespace", false, "With --adopt, use a namespace that exists: "+
		"whoever may create pods or edit workloads in it gets the permissions of the worker")
	flags.BoolVar(&f.wait, "wait", true, "Wait until the controller is rolled out")
	durationVar(flags, &f.timeout, "timeout", defaultInstallTimeout, time.Nanosecond,
		"How long to wait for each object")
	outputVar(flags, &f.output, render.Text, render.JSON, render.YAML)
}

// complete returns what the flags say, and refuses what cannot be meant.
func (f *installFlags) complete(command *cobra.Command) (install.Options, error) {
	refused := func(err error) (install.Options, error) { return install.Options{}, usageError(command, err) }
	completeShutdownDelay(command, f.options.SettleTime, &f.options.ShutdownDelay)
	if f.export && f.dryRun != dryRunNone {
		if err := exclusive(command, "export", "dry-run"); err != nil {
			return install.Options{}, err
		}
	}
	for _, name := range f.forget {
		if name != forgetAll && f.remembered.Lookup(name) == nil {
			return refused((&valueError{"unknown", "all or names of flags that install remembers"}).of("--forget-flags",
				name))
		}
	}
	o := f.options
	if o.Image == "" {
		o.Image = defaultImage(thisBuild())
	}
	o.RecordOnly = !f.trigger
	o.Flags = map[string]string{}
	f.remembered.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			o.Flags[flag.Name] = textOf(flag.Value)
		}
	})
	o = o.Complete()
	if o.Workers != install.Jobs && !command.Flags().Changed("guard") {
		o.Guard = false
	}
	if err := o.Check(); err != nil {
		return refused(err)
	}
	return o, nil
}

// install gathers what was remembered and what may be migrated, decides what that needs, and applies it.
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
	var unseen []string
	if o.Names() {
		resources, unseen, err = env.includedResources(ctx, command, o, config, client)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return env.explainInstall(ctx, command, o.Namespace, err)
	case err != nil:
		return err
	}
	plan, err := install.Plan(o, resources)
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
	shown := env.changes(f.output, f.dryRun)
	installation := &install.Installation{
		Client: client, Mode: mode(f.dryRun), Adopt: f.adopt, TrustNamespace: f.trust, Timeout: f.timeout,
		Report: shown.add, Progress: env.waiting,
		Tell: func(text string) { fmt.Fprintln(env.Err, "Upgrade: "+text) },
		Warn: func(text string) { fmt.Fprintln(env.Err, "Warning: "+text) },
	}
	err = installation.Run(ctx, plan)
	if err == nil && f.dryRun == dryRunNone && f.wait {
		err = installation.Rollout(ctx, o.Namespace)
	}
	if failure := shown.end(err); failure != nil {
		return failure
	}
	if err != nil {
		return env.explainInstall(ctx, command, o.Namespace, err)
	}
	env.warnOfImage(o)
	if err := env.warnOfRestarts(ctx, command, o, &requests{env: env, config: config, client: client}); err != nil {
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

// guarded decides whether there is a guard, and warns where there is none.
func (env *environment) guarded(
	ctx context.Context, command *cobra.Command, f *installFlags, client rest.Interface, o install.Options,
) (bool, error) {
	const unserved = "the API server serves no ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1"
	chosen := command.Flags().Changed("guard") // or remembered
	warn := func(why string) (bool, error) {
		fmt.Fprintf(env.Err, "Warning: %s, so nothing keeps the workers from changing what they may patch: "+
			"protect their namespace and tokens like those of an administrator.\n", why)
		return false, nil
	}
	switch {
	case !o.Guard && o.Workers != install.Jobs:
		return warn("with --workers=" + string(o.Workers) + " there is no guard")
	case !o.Guard:
		return warn("with --guard=false there is no guard")
	case f.export && slices.Contains(f.forget, forgetAll) && chosen:
		return true, nil // without a cluster
	}
	served, err := install.Guardable(ctx, client)
	switch {
	case err != nil:
		return false, env.explainInstall(ctx, command, o.Namespace, err)
	case served:
		return true, nil
	case chosen:
		return false, hinted(errors.New(unserved+", which the guard needs"), env.sameAgain(command, "--guard=false"))
	}
	return warn(unserved)
}

// manifests are objects as a tool that applies them reads them.
func (f *installFlags) manifests(plan []*unstructured.Unstructured) ([]byte, error) {
	if f.output == render.JSON {
		return install.JSON(plan)
	}
	return install.YAML(plan)
}

// warnOfImage says so where the name of the image does not say what runs.
func (env *environment) warnOfImage(o install.Options) {
	if text := install.ImageWarning(o.Image); text != "" {
		fmt.Fprintln(env.Err, "Warning: "+text)
	}
}

// warnOfRestarts says so where the API server is of a release about which evidence is never strong enough to migrate
// anything.
func (env *environment) warnOfRestarts(ctx context.Context, command *cobra.Command,
	o install.Options, q *requests) error {
	if o.MinEvidence <= migrate.Sampled {
		return nil
	}
	release, err := q.release(ctx)
	if err != nil {
		return q.explain("read the version of the API server", err)
	}
	if !agreement.ShowsRestarts(release) {
		fmt.Fprintf(env.Err, "Warning: API servers older than 1.35 do not show that they were restarted (%s), so "+
			"evidence about them is Sampled: what is stored is "+
			"recorded, and nothing is migrated. To migrate on that evidence: %s\n", release,
			env.sameAgain(command, "--min-evidence=sampled"))
	}
	return nil
}

// forgetAll is the value of --forget-flags that stands for every flag.
const forgetAll = "all"

// recall sets the flags that the last installation was given and this one is not, and says so. It reads nothing where
// all are forgotten.
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
		return hinted(fmt.Errorf("read the flags of the last installation: %w", err),
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
			return hinted(fmt.Errorf("the remembered value of --%s is %q, which cannot be read", name, known[name]),
				env.sameAgain(command, "--forget-flags="+name))
		default:
			kept = append(kept, quoted("--"+name+"="+known[name]))
		}
	}
	if len(kept) > 0 {
		fmt.Fprintf(env.Err, "Kept from the last installation: %s\n", strings.Join(kept, " "))
	}
	return nil
}

// textOf is the text that sets a flag to its present value.
func textOf(value pflag.Value) string {
	if _, isList := value.(pflag.SliceValue); isList { // in brackets for people
		return strings.TrimSuffix(strings.TrimPrefix(value.String(), "["), "]")
	}
	return value.String()
}

// explainInstall turns an error of installing or removing into the two lines of every error.
func (env *environment) explainInstall(ctx context.Context, command *cobra.Command, namespace string, err error) error {
	forbidden, foreign, late, leaving := (*access.ForbiddenError)(nil), (*install.ForeignError)(nil),
		(*install.TimeoutError)(nil), (*install.LeavingError)(nil)
	untrusted := (*install.UntrustedNamespaceError)(nil)
	switch {
	case ctx.Err() != nil:
		return hintedCode(errors.New("interrupted; the same command goes on where it was"),
			env.sameAgain(command), exitInterrupted)
	case errors.As(err, &forbidden):
		return hinted(err, forbidden.Try())
	case errors.As(err, &leaving):
		return hinted(err, "kubectl get "+leaving.Resource.String()+" "+leaving.Name)
	case errors.As(err, &foreign) && len(foreign.Namespaces) > 0, errors.As(err, &untrusted):
		return hinted(err, env.sameAgain(command, "--adopt", "--trust-namespace"))
	case errors.As(err, &foreign):
		return hinted(err, env.sameAgain(command, "--adopt"))
	case errors.As(err, &late) && namespace != "":
		return hinted(err, "kubectl -n "+namespace+" describe pods")
	case errors.As(err, &late):
		return hinted(err, "kubectl get namespaces,pods --all-namespaces -l app.kubernetes.io/name="+install.Name)
	case isEscalation(err):
		// The API server lists every rule that is missing, which may be hundreds.
		return hinted(errors.New("you may not grant what the roles grant: it takes all of it, or the verb escalate "+
			"on clusterroles.rbac.authorization.k8s.io and roles.rbac.authorization.k8s.io"),
			"kubectl auth can-i escalate clusterroles.rbac.authorization.k8s.io")
	case errors.Is(err, install.ErrInUse):
		return hinted(err, env.name+" uninstall")
	}
	return hinted(err, command.CommandPath()+" --dry-run=server")
}

// sameAgain is this command line with further arguments.
func (env *environment) sameAgain(command *cobra.Command, arguments ...string) string {
	for _, name := range []string{"include", "exclude"} { // again leaves out what selects
		patterns, _ := command.Flags().GetStringSlice(name)
		for _, pattern := range patterns {
			arguments = append(arguments, "--"+name+"="+pattern)
		}
	}
	return (&migration{env: env, command: command}).again(arguments...)
}

// isEscalation recognizes the API server's answer to somebody who grants what they do not have.
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

// untilInterrupted returns a context that ends with the first interrupt: installing can be repeated at any point.
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

// notInTag is what the tag of an image cannot hold but a version can.
var notInTag = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// defaultImage is the image of a release, or of a build of one's own. The name of the latter begins with localhost:
// without a registry, nodes would take the image from wherever they look first, and whoever could push it there would
// have the permissions of the installation.
func defaultImage(b Build) string {
	if b.Image != "" {
		return b.Image
	}
	return "localhost/kube-migrator:" + strings.Trim(notInTag.ReplaceAllString(b.Version, "-"), "-.")
}
