// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// checkCommand is the command check and its flags.
type checkCommand struct {
	*environment
	command *cobra.Command
	etcdFlags
	fleet         clusters.Flags
	scope         records.Scope
	targetVersion string
	targetServer  string
	files         []string
	maxAge        time.Duration
	explain       bool
	output        render.Format
}

func newCheckCommand(env *environment) *cobra.Command {
	c := &checkCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "check [RESOURCE…]",
		Short: "Tell whether an upgrade, a downgrade or a new CustomResourceDefinition is safe now, and why",
		Long: `Tell for every resource, or for the named ones, whether an upgrade or a downgrade is safe now, why, and which command
helps if it is not. check writes nothing.

check takes what is stored from the StorageStates that the controller keeps, together with the versions that the API
servers show that they write. If a version is known to be stored or written, and the others cannot read it, the verdict is
Unsafe. If anything is unknown, it is Undetermined: a StorageState says Unknown, or the controller has not renewed it in
time, or it does not exist. The period that a StorageState records says how old it may be; --max-age overrides that. In a
cluster without StorageStates only CustomResourceDefinitions record what is stored (status.storedVersions). check skips the
resources that the installation excludes, unless they are named or --include matches them. progress gives the same verdicts.

Without a target, a resource is safe if all of it is stored in the version that the API servers write now. With
--target-version or --target-server, it is safe if the target can decode every stored version: a custom resource, if its
CustomResourceDefinition has the version in spec.versions; a built-in resource, if the release can, according to real API
servers of these releases: ` + upgrade.KnownRange() + `. A release of Kubernetes tells nothing about the resources of
aggregated API servers: of these, the versions count that their API servers at --target-server declare as decodable
(StorageVersion), such as those of a test cluster with the API server's new release. Use one in which no other release has
run: the entry of a server that is gone counts until it is removed. Where API servers declare nothing there, check expects
that they stay as they are in this cluster.

--explain reads no cluster. It shows, up to --target-version or the newest known release, which release stores a built-in
resource in another version than the release before, and which versions it can no longer decode.

-f tells whether applying CustomResourceDefinitions would do harm: a version that is still stored is missing from
spec.versions, objects would lose fields, a conversion webhook that objects or clients need is missing, or ownerReferences
name a version that is not served. It asks the plan of upgrade-crd, and the API server by a dry run if the user may write
CRDs. It accepts files and folders of manifests, and the output of kustomize and Helm; objects of other kinds are skipped.
If a version is not served any more, it lists the metadata of every object of the cluster.

With --snapshot or --etcd-endpoints, the content of etcd decides instead of the records. A snapshot does so up to the moment
at which it was taken: what a StorageState or storedVersions may have recorded later counts in addition, so take a new one.
A StorageState or storedVersions that claims less than etcd holds is named, and counts as unsafe, because others rely on it.
Encrypted objects are judged by their StorageState.

Below the table come reasons and commands; -o wide shows all of that in the table. -o name lists the resources that are not
safe, or cannot be determined, one per line. -o html writes a page that needs nothing besides itself, for a change ticket.

Exit codes: 0 safe; 1 error; 2 unsafe; 3 cannot be determined, or the target's release is unknown. 2 takes precedence over 3.` + fleetHelp,
		Example: `  kube-migrator check
  kube-migrator check --target-version 1.36
  kube-migrator check --target-version 1.36 --explain
  kube-migrator check --target-server https://new-control-plane:6443
  kustomize build config/crd | kube-migrator check -f -
  kube-migrator check --snapshot snapshot.db -o json
  kube-migrator check --target-version 1.36 -o html > check.html
  kube-migrator check --contexts 'prod-*' --target-version 1.36`,
		RunE: func(command *cobra.Command, args []string) error {
			c.scope.Names = args
			if c.explain {
				return c.compareReleases()
			}
			source, err := c.validate()
			if err != nil {
				return err
			}
			return c.run(command.Context(), source)
		},
	}
	flags := c.command.Flags()
	flags.StringVar(&c.targetVersion, "target-version", "",
		"Kubernetes release that has to decode the stored objects, such as 1.36")
	flags.StringVar(&c.targetServer, "target-server", "",
		"API server that has to decode the stored objects: a URL, or a context of the kubeconfig")
	flags.StringSliceVarP(&c.files, "filename", "f", nil,
		"File or folder with CustomResourceDefinitions that will be applied; - is standard input")
	arg.Duration(flags, &c.maxAge, "max-age", 0, 0,
		"How old a StorageState may be; 0 for any age (default: one and a half times the period that it records, plus "+
			"2 minutes)")
	flags.BoolVar(&c.explain, "explain", false,
		"Show what the releases up to --target-version change for built-in resources; reads no cluster")
	c.scope.Add(flags)
	c.add(flags)
	c.fleet.Add(flags)
	arg.Output(flags, &c.output, render.Table, render.Wide, render.JSON, render.YAML, render.Name, render.HTML)
	// The flag exists, and has no other completion.
	_ = c.command.RegisterFlagCompletionFunc("target-version",
		cobra.FixedCompletions(upgrade.Known(), cobra.ShellCompDirectiveNoFileComp))
	return c.command
}

// validate returns an error for flags that cannot be used together. It returns the etcd to read, or nil if there is
// none.
func (c *checkCommand) validate() (etcdaudit.Source, error) {
	if c.command.Flags().Changed("target-server") && c.targetServer == "" {
		return nil, arg.Invalid(c.command, "target-server", "", "a URL or a context of the kubeconfig")
	}
	if err := arg.Exclusive(c.command, "target-version", "target-server"); err != nil {
		return nil, err
	}
	// The files are both the target and the scope.
	for _, other := range []string{"target-version", "target-server", arg.Resource, "include", "exclude"} {
		if err := arg.Exclusive(c.command, "filename", other); err != nil {
			return nil, err
		}
	}
	if err := c.scope.Check(c.command); err != nil {
		return nil, err
	}
	if err := c.fleet.Check(c.command, "snapshot", "etcd-endpoints"); err != nil {
		return nil, err
	}
	return c.source(c.command)
}

// run shows the report about the cluster, or about every cluster of a fleet.
func (c *checkCommand) run(ctx context.Context, source etcdaudit.Source) (err error) {
	g := gathering{command: c.command, scope: c.scope, etcd: source, prefix: c.prefix, question: upgrade.Question{
		Now: time.Now(), MaxAge: c.maxAge,
		AnyAge: c.command.Flags().Changed("max-age") && c.maxAge == 0,
		Etcd:   source != nil, Applying: len(c.files) > 0,
	}}
	if g.question.Applying {
		if g.manifests, err = c.readManifests(); err != nil {
			return err
		}
	}
	if g.question.Target, err = c.target(ctx); err != nil {
		return err
	}
	if c.fleet.Given(c.command) {
		q := inquiry{environment: c.environment, command: c.command, output: c.output}
		q.ask = func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			own := g // each cluster gets a copy of the question
			return own.answer(ctx, env)
		}
		return q.overFleet(&c.fleet, "VERDICT")
	}
	if g.Client, err = c.connect(); err != nil {
		return err
	}
	report, err := g.judge(ctx)
	if err != nil {
		return err
	}
	if c.output == render.HTML {
		err = page.Report(c.Out, page.OfCheck(report, g.Host, g.question.Now))
	} else {
		err = render.Check(c.Out, c.output, report)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return g.conclude(report)
}

// gathering is a question about one cluster, and everything that check reads to answer it.
type gathering struct {
	command  *cobra.Command
	question upgrade.Question
	scope    records.Scope
	// manifests are the CRDs that will be applied, if the question is about them.
	manifests []*crdlife.CRD
	// etcd is read if it is not nil; prefix is the prefix of its keys.
	etcd   etcdaudit.Source
	prefix string

	*records.Client
	records.Known
}

// answer is check for one cluster of a fleet.
func (g *gathering) answer(ctx context.Context, env *environment) (_ *render.FleetAnswer, err error) {
	if g.Client, err = env.connect(); err != nil {
		return nil, err
	}
	report, err := g.judge(ctx)
	if err != nil {
		return nil, err
	}
	for i := range report.Findings {
		report.Findings[i].Next = env.aimed(report.Findings[i].Next)
	}
	answer := render.CheckAnswer(report)
	return &answer, g.conclude(report)
}

// judge gathers the facts and judges them.
func (g *gathering) judge(ctx context.Context) (upgrade.Report, error) {
	g.question.Program = g.Program
	if err := g.look(ctx); err != nil {
		return upgrade.Report{}, err
	}
	if g.question.Applying {
		return g.judgeManifests(ctx)
	}
	facts, about, err := g.Choose(g.scope)
	if err != nil {
		return upgrade.Report{}, exit.NotFound(g.Program, g.command, err)
	}
	if !g.question.Etcd && (g.question.Target != nil || !g.question.Installed) {
		if err := g.countEmpty(ctx, facts); err != nil {
			return upgrade.Report{}, err
		}
	}
	if err := g.foresee(ctx, facts); err != nil {
		return upgrade.Report{}, err
	}
	return g.question.Report(facts, about), nil
}

// look reads the cluster's inventory, StorageStates and StorageVersionMigrations, and etcd if there is one to read.
func (g *gathering) look(ctx context.Context) (err error) {
	if g.Inventory, err = inventory.Take(ctx, g.REST); err != nil {
		return exit.Unreachable(g.Host, err)
	}
	if g.States, g.question.Installed, err = g.ReadStates(ctx); err != nil {
		return err
	}
	if g.question.Installed {
		if g.Migrations, err = g.List(ctx); err != nil {
			return err
		}
	}
	if g.question.Target != nil {
		if g.Declared, err = g.ReadDeclared(ctx, false); err != nil {
			return err
		}
	}
	if g.etcd == nil {
		return nil
	}
	report, err := etcdaudit.Audit(ctx, g.etcd, etcdaudit.Options{Prefix: g.prefix})
	if err != nil {
		return explainAudit(g.command, err)
	}
	g.Held = records.HeldOf(report)
	if report.Source.File != "" {
		g.question.Snapshot = report.Source.Revision
	}
	fmt.Fprintf(g.Notes, "Read %s objects from etcd at revision %d.\n", render.Count(report.Totals.Objects),
		report.Source.Revision)
	return nil
}

// foresee notes which fields a migration would drop of the custom resources that need one. It reads their CRDs, and no
// objects. No verdict depends on it, so a CRD that cannot be read is left out.
func (g *gathering) foresee(ctx context.Context, facts []upgrade.Facts) error {
	for i, f := range facts {
		at := g.index(f.Resource)
		if f.CRD != nil && at >= 0 && g.question.Judge(f).Verdict != upgrade.Safe {
			facts[i].MayLose, _ = inventory.MayLose(ctx, g.REST, g.Inventory.Resources[at])
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("look for fields that would be lost: %w", err)
	}
	return nil
}

// countEmpty notes which resources have no objects, and which have objects that cannot be listed.
func (g *gathering) countEmpty(ctx context.Context, facts []upgrade.Facts) error {
	var resources []inventory.Resource
	var served []int
	for i, f := range facts {
		if at := g.index(f.Resource); at >= 0 {
			resources, served = append(resources, g.Inventory.Resources[at]), append(served, i)
		}
	}
	counts, err := countAll(ctx, g.REST, resources)
	if err != nil {
		return err
	}
	for n, i := range served {
		facts[i].Empty = counts[n].objects != nil && counts[n].objects.Count == 0
		if isUnreadable(counts[n].err) {
			facts[i].Unreadable = exit.OneLine(counts[n].err).Error()
		}
	}
	return nil
}

// index returns the place of a resource in the inventory, or -1 if no API server serves it.
func (g *gathering) index(resource schema.GroupResource) int {
	return slices.IndexFunc(g.Inventory.Resources, func(r inventory.Resource) bool { return r.GroupResource == resource })
}

// conclude turns the verdict into an exit code, and warns about everything that could not be read.
func (g *gathering) conclude(report upgrade.Report) error {
	for _, what := range report.NotLookedAt {
		fmt.Fprintf(g.Notes, "Skipped: %s\n", what)
	}
	bare := !g.question.Installed && !g.question.Etcd && !g.question.Applying
	missing := errors.New("this cluster has no StorageStates, which record what is stored: kube-migrator is not " +
		"installed")
	switch code := exitOf(report.Verdict); {
	case code == exit.Done:
		return nil
	case bare && report.Verdict == upgrade.Undetermined:
		return exit.TryCode(missing, g.Program+" install", code)
	case bare:
		fmt.Fprintf(g.Notes, "note: %v\n", missing)
		return exit.Code(code)
	default:
		return exit.Code(code)
	}
}

// exitOf returns the exit code of check and of progress for a verdict.
func exitOf(v upgrade.Verdict) int {
	switch v {
	case upgrade.Safe:
		return exit.Done
	case upgrade.Unsafe:
		return exit.WorkLeft
	case upgrade.Undetermined:
	}
	return exit.Undetermined
}
