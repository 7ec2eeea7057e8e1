// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// add adds the flags.
func (c *installCommand) add(all *pflag.FlagSet) {
	c.remembered = pflag.NewFlagSet("install", pflag.ContinueOnError)
	flags := c.remembered
	flags.StringVarP(&c.options.Namespace, "namespace", "n", install.DefaultNamespace,
		"Namespace of the controller and its workers; created if it does not exist")
	flags.StringVar(&c.options.Image, "image", "", "Image of the controller and its workers, preferably by digest "+
		"(default: the image of this release, by digest; for a build of your own localhost/kube-migrator:VERSION, "+
		"which has to be on every node)")
	arg.Word(flags, &c.options.ImagePullPolicy, "image-pull-policy", "IfNotPresent", "Always, IfNotPresent or Never",
		"Always", "IfNotPresent", "Never")
	arg.Number(flags, &c.options.Replicas, "replicas", install.DefaultReplicas,
		arg.Within[int32]{Least: 1, Unit: "replicas"}, "Replicas of the controller; one of them is active")
	flags.BoolVar(&c.trigger, "auto-trigger", true,
		"Let the controller request a migration if a resource may be stored in more than its current version; "+
			"false: only record that")
	arg.Duration(flags, &c.options.DiscoveryPeriod, "discovery-period", trigger.DefaultPeriod, time.Second,
		"How often the controller asks all API servers what they store if nothing changes")
	arg.Word(flags, &c.options.Bootstrap, "bootstrap", install.BootstrapAll,
		"What the controller requests when it starts. all: a migration of every included resource that has none; none",
		install.BootstrapAll, install.BootstrapNone)
	flags.BoolVar(&c.options.Guard, "guard", true,
		"Install admission policies that keep the workers from changing anything. Default: true if the API server "+
			"serves ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1")
	flags.StringSliceVar(&c.options.Include, "include", nil,
		"Resources that may be migrated: a pattern of full names, such as '*.demo.example.com' (default: all, "+
			"also those that are added later)")
	flags.StringSliceVar(&c.options.Exclude, "exclude", nil,
		"Resources that may not be migrated: a pattern of full names")
	arg.Evidence(flags, &c.options.MinEvidence)
	arg.Duration(flags, &c.options.SettleTime, arg.SettleTime, migrate.DefaultSettleTime,
		time.Nanosecond, arg.SettleTimeUsage)
	arg.ShutdownDelay(flags, &c.options.ShutdownDelay)
	addPace(flags, &c.options.Pace, arg.DefaultRate, arg.DefaultInFlight)
	arg.Number(flags, &c.options.MaxConcurrentMigrations, "max-concurrent-migrations", worker.DefaultAtOnce,
		arg.Within[int]{Least: 1, Unit: "migrations"},
		"Upper bound of migrations that run at one time in the cluster; those at one pace keep its bounds together")
	flags.StringSliceVar(&c.options.MetricsFromNamespaces, "metrics-from-namespace", nil,
		"Namespaces whose pods the NetworkPolicy allows to connect to the port of the metrics "+
			"(default: all; scrapers authenticate anyway)")
	flags.StringVar(&c.options.MetricsCertSecret, "metrics-cert-secret", "",
		"Secret of the type kubernetes.io/tls in the namespace, "+
			"with the certificate for metrics; reloaded when it changes (default: a self-signed certificate)")
	flags.StringSliceVar(&c.options.EgressTo, "egress-to", nil,
		"Blocks of addresses to which the NetworkPolicy allows the controller "+
			"and its workers to connect, such as 10.0.0.0/8 or 192.0.2.0/28:6443. They need the API servers, each at its "+
			"own address, and the pods of aggregated API servers (default: every address)")
	all.AddFlagSet(c.remembered)
	flags = all
	flags.StringSliceVar(&c.forget, "forget-flags", nil,
		"Names of flags to reset to their defaults instead of the remembered values; all: every flag that is not given")
	dryRunVar(flags, &c.dryRun, "show what would be applied", "let the API server check all of it and change nothing")
	flags.BoolVar(&c.export, "export", false,
		"Write the manifests to stdout and change nothing: as YAML documents, or with -o json as a List")
	flags.BoolVar(&c.adopt, "adopt", false, "Take over CRDs of another installation with their objects, "+
		"and use an existing namespace (with --trust-namespace)")
	flags.BoolVar(&c.trust, "trust-namespace", false, "With --adopt, use an existing namespace: "+
		"anyone who may create pods or edit workloads in it gets the permissions of the worker")
	flags.BoolVar(&c.wait, "wait", true, "Wait until the controller is rolled out")
	arg.Duration(flags, &c.timeout, "timeout", defaultInstallTimeout, time.Nanosecond,
		"How long to wait for each object")
	arg.Output(flags, &c.output, render.Text, render.JSON, render.YAML)
}

// complete returns the options that the flags set, or an error for flags that contradict one another.
func (c *installCommand) complete() (install.Options, error) {
	refused := func(err error) (install.Options, error) { return install.Options{}, exit.Usage(c.command, err) }
	arg.CompleteShutdownDelay(c.command, c.options.SettleTime, &c.options.ShutdownDelay)
	if c.export && c.dryRun != dryRunNone {
		if err := arg.Exclusive(c.command, "export", "dry-run"); err != nil {
			return install.Options{}, err
		}
	}
	for _, name := range c.forget {
		if name != forgetAll && c.remembered.Lookup(name) == nil {
			return install.Options{}, arg.UnknownValue(c.command, "forget-flags", name,
				"all or names of flags that install remembers")
		}
	}
	o := c.options
	if o.Image == "" {
		o.Image = defaultImage(thisBuild())
	}
	o.RecordOnly = !c.trigger
	o.Flags = map[string]string{}
	c.remembered.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			o.Flags[flag.Name] = textOf(flag.Value)
		}
	})
	o = o.Complete()
	if err := o.Check(); err != nil {
		return refused(err)
	}
	return o, nil
}

// textOf returns the text that sets a flag to its current value.
func textOf(value pflag.Value) string {
	if _, isList := value.(pflag.SliceValue); isList { // String adds brackets for users
		return strings.TrimSuffix(strings.TrimPrefix(value.String(), "["), "]")
	}
	return value.String()
}

// addPace adds the bounds of the load that install passes on to the controller.
func addPace(flags *pflag.FlagSet, into *v1alpha1.Pace, rate, inFlight int32) {
	arg.Number(flags, &into.MaxObjectsPerSecond, "max-rate", rate,
		arg.Within[int32]{Most: v1alpha1.MostObjectsPerSecond, Unit: objectsPerSecond},
		"Upper bound of objects per second of a migration that the controller requests, unless the migration has a "+
			"bound already (0: as many as the API servers can take)")
	arg.Number(flags, &into.MaxInFlight, "max-in-flight", inFlight,
		arg.Within[int32]{Most: v1alpha1.MostInFlight, Unit: "requests"},
		"Upper bound of requests in flight of such a migration (0: 64)")
	arg.Bandwidth(flags, &into.MaxBytesPerSecond,
		"Upper bound of bytes per second of such a migration, requests and responses together, such as 500k or 10Mi "+
			"(0: no bound)")
}

// guarded decides whether the installation has a guard, and warns if it has none.
func (c *installCommand) guarded(ctx context.Context, client rest.Interface, o install.Options) (bool, error) {
	const unserved = "the API server serves no ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1"
	chosen := c.command.Flags().Changed("guard") // or remembered
	warn := func(why string) (bool, error) {
		fmt.Fprintf(c.Err, "Warning: %s, so nothing keeps the workers from changing what they may patch: "+
			"protect their namespace and tokens like those of an administrator.\n", why)
		return false, nil
	}
	switch {
	case !o.Guard:
		return warn("with --guard=false there is no guard")
	case c.export && slices.Contains(c.forget, forgetAll) && chosen:
		return true, nil // without a cluster
	}
	served, err := install.Guardable(ctx, client)
	switch {
	case err != nil:
		return false, c.explained(ctx, o.Namespace, err)
	case served:
		return true, nil
	case chosen:
		return false, exit.Try(errors.New(unserved+", which the guard needs"), c.again("--guard=false"))
	}
	return warn(unserved)
}

// warnOfImage warns if the name of the image does not determine which program runs.
func (c *installCommand) warnOfImage(o install.Options) {
	if text := install.ImageWarning(o.Image); text != "" {
		fmt.Fprintln(c.Err, "Warning: "+text)
	}
}

// notInTag are the characters that a version may contain and the tag of an image may not.
var notInTag = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// defaultImage returns the image of a release, or of the user's own build. The name of the latter begins with
// localhost: without a registry, each node would decide where to look for it, and an attacker with access to that place
// would get the permissions of the installation.
func defaultImage(b Build) string {
	if b.Image != "" {
		return b.Image
	}
	return "localhost/kube-migrator:" + strings.Trim(notInTag.ReplaceAllString(b.Version, "-"), "-.")
}

// seenEnough returns an error with its own exit code if the command could not find out which resources some groups
// have.
func (c *installCommand) seenEnough(unseen []string) error {
	if len(unseen) == 0 {
		return nil
	}
	return exit.TryCode(fmt.Errorf("done, but of %s nothing is granted beyond what the roles named before: discovery "+
		"could not be read", phrase.Few(unseen)),
		c.again(), exit.Undetermined)
}

// includedResources reads the resources that may be migrated, all that are known, and which group-versions could not be
// read. For their groups it returns the resources for which permissions were granted before.
func (c *installCommand) includedResources(ctx context.Context, q *records.Client, o install.Options) (
	resources []schema.GroupResource, known *inventory.Inventory, unseen []string, err error) {
	if known, err = inventory.Take(ctx, q.REST); err != nil {
		return nil, nil, nil, exit.Unreachable(q.Host, err)
	}
	if resources, err = c.selected(o, known); err != nil {
		return nil, nil, nil, err
	}
	var groups []string
	for _, failure := range known.Failures {
		if !o.Extends() { // otherwise the controller grants permissions for resources that it finds later
			fmt.Fprintf(c.Err, "Skipped: %s\n", strings.Join(strings.Fields(failure.String()), " "))
		}
		if gv, err := schema.ParseGroupVersion(failure.What); err == nil && gv.Version != "" &&
			gv.Group == failure.Group && failure.What != "APIServices" && failure.What != "CustomResourceDefinitions" {
			groups, unseen = append(groups, gv.Group), append(unseen, failure.What)
		}
	}
	if o.Extends() {
		unseen = nil
	}
	if len(groups) > 0 {
		kept, err := install.Kept(ctx, q.REST, groups, o.Include, o.Exclude)
		if err != nil {
			return nil, nil, nil, c.explained(ctx, o.Namespace, err)
		}
		resources = append(resources, kept...)
	}
	return resources, known, unseen, nil
}

// selected returns the resources that the patterns include.
func (c *installCommand) selected(o install.Options, all *inventory.Inventory) ([]schema.GroupResource, error) {
	resources, err := install.Included(all, o.Include, o.Exclude)
	if unknown := (*inventory.NotFoundError)(nil); errors.As(err, &unknown) && len(unknown.Near) > 0 {
		return nil, exit.Try(err, c.command.CommandPath()+" "+shell.Quote("--include="+unknown.Near[0]))
	}
	if err != nil {
		return nil, exit.NotFound(c.name, c.command, err)
	}
	if len(resources) == 0 {
		return nil, exit.Usage(c.command, errors.New("--include and --exclude leave nothing that could be migrated"))
	}
	return resources, nil
}
