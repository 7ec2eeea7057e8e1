// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

const (
	// assumedRate is the rate from which durations are computed without --max-rate. It is less than the default bound: a
	// migration should rather take less time than planned.
	assumedRate = 100
	// countConcurrency bounds the resources that are counted at once.
	countConcurrency = 4
)

// planCommand is the command plan with its arguments and flags.
type planCommand struct {
	*environment
	command *cobra.Command
	names   []string
	fleet   clusters.Flags
	output  render.Format
	maxRate float64
}

func newPlanCommand(env *environment) *cobra.Command {
	c := &planCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "plan [RESOURCE…]",
		Short: "Show which resources exist, and which need to be migrated",
		Long: `Show every resource, or the named ones. Those that need a migration come first, then those that may need one, each group
in the order in which it is worth migrating. For each resource the table shows the version in which the API server stores
it, the versions that its CustomResourceDefinition records as stored, the number of objects, whether it needs to be
migrated, and how long that takes at the given rate. The reasons follow the table, each once; -o wide shows them in it.

StorageStates, which the controller of kube-migrator keeps, and CustomResourceDefinitions record what is stored. Nothing
records it for other resources: if they have objects, the answer is "unknown". migrate proves it, and audit reads it from
etcd. plan writes nothing, and reads the metadata of one object per resource to count the objects. Of a custom resource that
needs a migration, it reads the CustomResourceDefinition and the metadata of up to 100 objects, and names those that a
migration would leave alone, because they would lose fields that the schema does not have.

RESOURCE is what kubectl accepts: widgets, widget, widgets.demo.example.com, widgets.v2.demo.example.com, a short name.

-o name lists the resources that can be migrated and need it, or may need it, one per line.

Exit codes: 2 if a resource needs a migration; else 3 if that cannot be determined for a named resource, or, if none was
named, because a part of the cluster could not be read; else 0. Built-in resources whose stored versions are not recorded
count only if they are named. 1 is an error.` + fleetHelp,
		Example: `  kube-migrator plan
  kube-migrator plan widgets.demo.example.com -o json
  kube-migrator plan --max-rate 300
  kube-migrator plan --contexts 'prod-*'`,
		RunE: func(command *cobra.Command, args []string) error {
			c.names = args
			return c.run(command.Context())
		},
	}
	flags := c.command.Flags()
	arg.Output(flags, &c.output, render.Table, render.Wide, render.JSON, render.YAML, render.Name)
	arg.Number(flags, &c.maxRate, "max-rate", 0, arg.Within[float64]{Unit: objectsPerSecond},
		fmt.Sprintf("Objects per second to compute durations with (default: %d)", assumedRate))
	c.fleet.Add(flags)
	return c.command
}

// run shows the plan of the cluster, or of every cluster of a fleet.
func (c *planCommand) run(ctx context.Context) error {
	if err := c.fleet.Check(c.command); err != nil {
		return err
	}
	if c.fleet.Given(c.command) {
		q := inquiry{environment: c.environment, command: c.command, output: c.output, ask: c.answer}
		return q.overFleet(&c.fleet, "MIGRATION")
	}
	plan, failures, err := c.planned(ctx, c.environment)
	if err != nil {
		return err
	}
	if err := plan.Write(c.Out, c.output); err != nil {
		return err
	}
	if c.output == render.Table || c.output == render.Wide {
		showSkipped(c.Err, failures)
		c.showNotes(plan)
	}
	return c.end(plan)
}

// answer is plan for one cluster of a fleet.
func (c *planCommand) answer(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
	plan, failures, err := c.planned(ctx, env)
	if err != nil {
		return nil, err
	}
	showSkipped(env.Err, failures)
	answer := render.PlanAnswer(plan)
	return &answer, c.end(plan)
}

// planned gathers the facts of a cluster, and decides.
func (c *planCommand) planned(ctx context.Context, env *environment) (render.Plan, []inventory.Failure, error) {
	q, err := env.connect()
	if err != nil {
		return render.Plan{}, nil, err
	}
	inv, err := inventory.Take(ctx, q.REST)
	if err != nil {
		return render.Plan{}, nil, exit.Unreachable(q.Host, err)
	}
	resources := inv.Resources
	if len(c.names) > 0 {
		if resources, err = inv.FindAll(c.names); err != nil {
			return render.Plan{}, nil, exit.NotFound(q.Program, c.command, err)
		}
	}
	resources = inventory.ByRisk(resources)
	counts, err := countAll(ctx, q.REST, resources)
	if err != nil {
		return render.Plan{}, nil, err
	}
	rate := cmp.Or(c.maxRate, assumedRate)
	plan := planOf(q.Recorded(ctx, inv), resources, counts, inv.Failures, rate)
	for i := range plan.Resources {
		at := slices.IndexFunc(resources, func(r inventory.Resource) bool { return r.String() == plan.Resources[i].Name })
		if err := foresee(ctx, q.REST, resources[at], &plan.Resources[i]); err != nil {
			return render.Plan{}, nil, err
		}
	}
	return plan, inv.Failures, nil
}

// foresee adds which objects a migration would leave alone, because they would lose fields.
func foresee(ctx context.Context, client rest.Interface, r inventory.Resource, p *render.PlannedResource) error {
	if p.Migration == string(inventory.NotNeeded) || p.CountError != "" {
		return nil
	}
	outlook, err := inventory.Outlook(ctx, client, r, nil)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("look for fields that would be lost: %w", ctx.Err())
	case err != nil:
		p.Why += "; which fields would be lost is unknown: " + exit.OneLine(err).Error()
	case outlook.String() != "":
		p.Losses = outlook
		p.Why += "; " + outlook.String()
	}
	return nil
}

// count is the result of counting one resource. The zero value means that it was not counted.
type count struct {
	objects *inventory.Objects
	err     error
}

// isUnreadable reports whether an API server answered that it cannot list objects as they are stored.
func isUnreadable(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

// countAll counts the objects of each resource that can be migrated, with one request per resource.
func countAll(ctx context.Context, client rest.Interface, resources []inventory.Resource) ([]count, error) {
	counts := make([]count, len(resources))
	var wait errgroup.Group
	wait.SetLimit(countConcurrency)
	for i, r := range resources {
		if r.Problem != nil {
			continue
		}
		wait.Go(func() error {
			objects, err := inventory.Count(ctx, client, r)
			if err != nil {
				counts[i].err = err
			} else {
				counts[i].objects = &objects
			}
			return nil
		})
	}
	_ = wait.Wait() // each function stores its own error
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("count objects: %w", err)
	}
	return counts, nil
}

// planOf returns the plan to show. It is pure.
func planOf(j records.Recorded, resources []inventory.Resource, counts []count, failures []inventory.Failure,
	rate float64) render.Plan {
	plan := render.Plan{ObjectsPerSecond: rate, Resources: []render.PlannedResource{}}
	for i, r := range resources {
		p := plannedResource(r, counts[i], j.Need(r, counts[i].objects), rate)
		if r.Problem == nil && p.Migration != string(inventory.NotNeeded) {
			p.Next = j.Program + " migrate " + p.Name
		}
		plan.Resources = append(plan.Resources, p)
	}
	order := []string{string(inventory.Needed), string(inventory.Undetermined), string(inventory.NotNeeded)}
	slices.SortStableFunc(plan.Resources, func(a, b render.PlannedResource) int {
		return cmp.Compare(slices.Index(order, a.Migration), slices.Index(order, b.Migration))
	})
	for _, f := range failures {
		plan.Failures = append(plan.Failures, render.PlanFailure{What: f.What, APIService: f.APIService,
			Service: f.Service, Reason: f.Reason})
	}
	return plan
}

func plannedResource(r inventory.Resource, counted count, need inventory.Need, rate float64) render.PlannedResource {
	if isUnreadable(counted.err) && need.Answer == inventory.NotNeeded {
		need.Answer = inventory.Undetermined // whatever a record claims
	}
	p := render.PlannedResource{
		Name: r.String(), Group: r.Group, Resource: r.Resource, AlsoServedAs: r.Names()[1:],
		Kind: r.Kind, Origin: string(r.Origin), Service: r.Service, Namespaced: r.Namespaced,
		ServedVersions: []string{}, EndpointVersion: r.Endpoint, StorageVersion: r.Storage(),
		StorageVersionHash: r.StorageVersionHash,
		Migration:          string(need.Answer), Why: need.Why,
	}
	for _, version := range r.Versions {
		p.ServedVersions = append(p.ServedVersions, version.Name)
	}
	if r.CRD != nil {
		p.StoredVersions = r.CRD.StoredVersions
	}
	if r.Problem != nil {
		p.Problem, p.NotStored = string(r.Problem.Reason), r.Problem.Reason == inventory.NotPersisted
	}
	if err := counted.err; err != nil {
		p.CountError, p.CountForbidden = err.Error(), apierrors.IsForbidden(err)
		if !p.CountForbidden {
			p.Why += "; cannot list: " + exit.OneLine(err).Error()
		}
	}
	if n := counted.objects; n != nil {
		p.Objects, p.ObjectsEstimated = &n.Count, n.Estimated
		if need.Answer != inventory.NotNeeded && r.Problem == nil {
			seconds := float64(n.Count) / rate
			p.DurationSeconds = &seconds
		}
	}
	return p
}

// showSkipped names the parts of the cluster that could not be read.
func showSkipped(w io.Writer, failures []inventory.Failure) {
	for _, failure := range failures {
		fmt.Fprintf(w, "Skipped: %s\n", strings.Join(strings.Fields(failure.String()), " "))
	}
}

// showNotes writes notes about the table.
func (c *planCommand) showNotes(plan render.Plan) {
	if slices.ContainsFunc(plan.Resources, func(r render.PlannedResource) bool { return r.DurationSeconds != nil }) {
		note := "DURATION is at %v objects/s"
		if c.maxRate == 0 {
			note += ", an assumption; --max-rate sets it"
		}
		fmt.Fprintf(c.Err, note+".\n", plan.ObjectsPerSecond)
	}
	if n := plan.NotStored(); n > 0 && c.output == render.Table {
		fmt.Fprintf(c.Err, "%d resources are not stored and are not shown; -o wide shows them.\n", n)
	}
}

// end returns the error that ends the command with the exit code of planExit.
func (c *planCommand) end(plan render.Plan) error {
	if code := planExit(plan, len(c.names) > 0); code != exit.Done {
		return exit.Code(code)
	}
	return nil
}

// planExit returns the exit code that the command's help describes. It is pure.
func planExit(plan render.Plan, named bool) int {
	with := func(v inventory.Answer) bool {
		return slices.ContainsFunc(plan.Resources,
			func(r render.PlannedResource) bool { return r.Migration == string(v) })
	}
	switch {
	case with(inventory.Needed):
		return exit.WorkLeft
	case named && with(inventory.Undetermined), !named && len(plan.Failures) > 0:
		return exit.Undetermined
	}
	return exit.Done
}
