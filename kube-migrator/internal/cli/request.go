// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// defaultReason is the reason if the user gives none.
const defaultReason = "requested by hand"

// managedByLabel marks the objects that kube-migrator creates.
const managedByLabel = "app.kubernetes.io/managed-by"

// requestCommand is the command request and its flags.
type requestCommand struct {
	*environment
	command   *cobra.Command
	selection records.Selection
	reason    string
	// accepted are the fields that may be lost.
	accepted []string
	pace     v1alpha1.Pace
	dryRun   string
	output   render.Format
}

func newRequestCommand(env *environment) *cobra.Command {
	c := &requestCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "request [RESOURCE…]",
		Short: "Ask the controller in the cluster to migrate resources",
		Long: `Ask the controller in the cluster to rewrite every object of the resources in their storage version, and return at once.

The request is a StorageVersionMigration with the name of the resource: widgets.demo.example.com. request creates it if there
is none. If there is one, request raises its spec.generation, which stops a running migration and starts over. A paused one
stays paused, and a cancelled one becomes active again.

RESOURCE is what kubectl accepts: widgets, widgets.demo.example.com, widgets.v2.demo.example.com. --all and --include skip
a resource if its StorageState says that all of it is stored in the current version. No StorageState records a rotated
encryption key: add --force after a rotation.

Exit codes: 0 the API server has accepted every request, 1 error.`,
		Example: `  kube-migrator request widgets.demo.example.com
  kube-migrator request --all --exclude events --reason 'before the upgrade'
  kube-migrator request secrets --reason 'key rotation' && kube-migrator wait secrets`,
		RunE: func(command *cobra.Command, args []string) error {
			c.selection.Names = args
			if err := c.selection.Check(command); err != nil {
				return err
			}
			return c.run(command.Context())
		},
	}
	flags := c.command.Flags()
	c.selection.Add(flags)
	flags.StringVar(&c.reason, "reason", defaultReason, "The reason for the request, for users")
	flags.StringSliceVar(&c.accepted, "accept-field-loss", nil,
		"Fields that objects may lose, such as spec.size, with all fields below them; a later request keeps them unless "+
			"it has the flag")
	arg.Number(flags, &c.pace.MaxObjectsPerSecond, "max-rate", arg.DefaultRate,
		arg.Within[int32]{Most: v1alpha1.MostObjectsPerSecond, Unit: objectsPerSecond},
		"Upper bound of objects per second (0: as many as the API servers can take, in this run); a later request "+
			"keeps another bound than 0")
	arg.Number(flags, &c.pace.MaxInFlight, "max-in-flight", arg.DefaultInFlight,
		arg.Within[int32]{Most: v1alpha1.MostInFlight, Unit: "requests"},
		"Upper bound of requests in flight (0: 64, in this run); a later request keeps another bound than 0")
	arg.Bandwidth(flags, &c.pace.MaxBytesPerSecond,
		"Upper bound of bytes per second, requests and responses together, such as 500k or 10Mi (0: no bound); a "+
			"later request keeps it unless it has the flag")
	dryRunVar(flags, &c.dryRun, "show what would be requested", "let the API server check it and change nothing")
	arg.Output(flags, &c.output, render.Text, render.Name, render.JSON, render.YAML)
	return c.command
}

func (c *requestCommand) run(ctx context.Context) error {
	q, err := c.connect()
	if err != nil {
		return err
	}
	q.DryRun = c.dryRun == dryRunServer
	inv, err := inventory.Take(ctx, q.REST)
	if err != nil {
		return exit.Unreachable(q.Host, err)
	}
	resources, left, err := c.selection.From(inv)
	if err != nil {
		return exit.NotFound(c.name, c.command, err)
	}
	for _, r := range left {
		if r.Problem.Reason != inventory.NotPersisted {
			fmt.Fprintf(c.Err, "Skipped: %s: %s\n", r.GroupResource, r.Problem.Message)
		}
	}
	if resources, err = q.SpareCurrent(ctx, &c.selection, inv, resources); err != nil {
		return err
	}
	q.WarnRolledBack(ctx, inv, resources)
	var asked []v1alpha1.StorageVersionMigration
	for _, r := range resources {
		var m *v1alpha1.StorageVersionMigration
		if m, err = c.ask(ctx, q, r); err != nil {
			break
		}
		asked = append(asked, *m)
		if err = c.show(m); err != nil {
			break
		}
	}
	if failure := writeMigrations(c.Out, c.output, asked); failure != nil || err != nil {
		return cmp.Or(err, failure)
	}
	if c.output == render.Text && len(asked) > 0 {
		fmt.Fprintf(c.Err, "To watch: %s progress -w%s\n", c.name, watched(asked))
	}
	return nil
}

// writeMigrations writes objects as names, JSON or YAML; the command itself writes text. Like kubectl, it writes a
// single object by itself, and several as a list.
func writeMigrations(out io.Writer, output render.Format, all []v1alpha1.StorageVersionMigration) error {
	for i := range all {
		all[i].APIVersion, all[i].Kind = v1alpha1.SchemeGroupVersion.String(), "StorageVersionMigration"
	}
	var value any = v1alpha1.StorageVersionMigrationList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(),
			Kind: "StorageVersionMigrationList"},
		Items: append([]v1alpha1.StorageVersionMigration{}, all...),
	}
	if len(all) == 1 {
		value = all[0]
	}
	var err error
	switch output {
	case render.JSON, render.YAML:
		err = render.Data(out, output, value)
	case render.Name:
		for i := 0; i < len(all) && err == nil; i++ {
			_, err = fmt.Fprintln(out, records.MigrationPrefix+all[i].Name)
		}
	case render.Text, render.Table, render.Wide, render.HTML, render.Prometheus:
	}
	if err != nil {
		return fmt.Errorf("write StorageVersionMigrations: %w", err)
	}
	return nil
}

// watched returns the arguments for progress. If there are too many, it returns none, which means all.
func watched(items []v1alpha1.StorageVersionMigration) string {
	const most = 5
	if len(items) > most {
		return ""
	}
	var words strings.Builder
	for i := range items {
		words.WriteString(" " + items[i].Name)
	}
	return words.String()
}

func (c *requestCommand) show(m *v1alpha1.StorageVersionMigration) error {
	if c.output != render.Text {
		return nil
	}
	note := ""
	if c.dryRun != dryRunNone {
		note = " (a dry run)"
	}
	if _, err := fmt.Fprintf(c.Out, "%s requested (generation %d)%s\n", m.Name, m.Spec.Generation, note); err != nil {
		return fmt.Errorf("write what was requested: %w", err)
	}
	if m.Spec.State == v1alpha1.StatePaused {
		fmt.Fprintf(c.Err, "%s is paused: nothing happens before %s resume %s\n", m.Name, c.name, m.Name)
	}
	return nil
}

// ask creates the StorageVersionMigration of a resource, or raises its generation.
func (c *requestCommand) ask(ctx context.Context, q *records.Client,
	r inventory.Resource) (m *v1alpha1.StorageVersionMigration, err error) {
	name := r.GroupResource.String()
	err = records.Insist(ctx, func() error {
		before, err := q.Get(ctx, name)
		if err != nil {
			return err
		}
		if before == nil {
			m = c.newObject(r)
			if c.dryRun != dryRunClient {
				m, err = q.Create(ctx, m)
			}
			return err
		}
		if resource := records.ResourceOf(before); resource != r.GroupResource {
			return exit.Try(fmt.Errorf("the StorageVersionMigration %s is about another resource: %s", name, resource),
				"kubectl get storageversionmigrations.migration.k8s.io "+name+" -o yaml")
		}
		m = before.DeepCopy()
		m.Spec.Generation++
		if c.dryRun != dryRunClient {
			m, err = q.Patch(ctx, before, c.raise(before))
		}
		return err
	})
	if err != nil {
		return nil, q.Explain("request "+name, err)
	}
	m.APIVersion, m.Kind = v1alpha1.SchemeGroupVersion.String(), "StorageVersionMigration"
	return m, nil
}

// raise returns the change of the spec that requests another run. A bound that is missing gets its default.
func (c *requestCommand) raise(before *v1alpha1.StorageVersionMigration) map[string]any {
	spec := map[string]any{"generation": before.Spec.Generation + 1, "reason": c.reason,
		"priority": max(before.Spec.Priority, v1alpha1.DefaultPriority)}
	if before.Spec.State == v1alpha1.StateCancelled {
		spec["state"] = v1alpha1.StateActive
	}
	given := c.command.Flags().Changed // a bound that the user did not set stays unchanged
	pace := map[string]any{}
	for flag, change := range map[string]struct {
		field         string
		before, value int64
	}{
		"max-rate": {"maxObjectsPerSecond", int64(before.Spec.Pace.MaxObjectsPerSecond),
			int64(c.pace.MaxObjectsPerSecond)},
		"max-in-flight": {"maxInFlight", int64(before.Spec.Pace.MaxInFlight), int64(c.pace.MaxInFlight)},
		"max-bandwidth": {"maxBytesPerSecond", before.Spec.Pace.MaxBytesPerSecond, c.pace.MaxBytesPerSecond},
	} {
		if given(flag) || change.before == 0 && change.value != 0 {
			pace[change.field] = change.value
		}
	}
	if len(pace) > 0 {
		spec["pace"] = pace
	}
	if given("accept-field-loss") {
		spec["acceptFieldLoss"] = c.accepted
	}
	return spec
}

// newObject returns the object that requests the first run. The version is empty unless the user typed one: then the
// controller chooses it.
func (c *requestCommand) newObject(r inventory.Resource) *v1alpha1.StorageVersionMigration {
	m := &v1alpha1.StorageVersionMigration{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "StorageVersionMigration"},
		ObjectMeta: metav1.ObjectMeta{Name: r.GroupResource.String(),
			Labels: map[string]string{managedByLabel: install.Name}},
		Spec: v1alpha1.StorageVersionMigrationSpec{
			Resource:   v1alpha1.GroupVersionResource{Group: r.Group, Version: c.typedVersion(r), Resource: r.Resource},
			Generation: 1, Reason: c.reason, State: v1alpha1.StateActive,
			GroupVersions: trigger.GroupVersions(r),
			Pace:          c.pace, AcceptFieldLoss: c.accepted,
		},
	}
	return m
}

// typedVersion returns the version that the user typed for a resource, as in "widgets.v2.demo.example.com".
func (c *requestCommand) typedVersion(r inventory.Resource) string {
	for _, word := range c.selection.Names {
		if typed, _ := schema.ParseResourceArg(strings.ToLower(word)); typed != nil && typed.Group == r.Group &&
			typed.Version == r.Endpoint {
			return r.Endpoint
		}
	}
	return ""
}
