// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// migrateCommand is the command migrate and its flags.
type migrateCommand struct {
	migration
	selection records.Selection
	fleet     clusters.Flags
	// waveSize is how many clusters of a fleet are migrated at the same time.
	waveSize int
	dryRun   string
	reason   string
	output   render.Format
}

func newMigrateCommand(env *environment) *cobra.Command { return newMigrate(env).command }

func newMigrate(env *environment) *migrateCommand {
	c := &migrateCommand{migration: migration{environment: env}}
	c.command = &cobra.Command{
		Use:   "migrate [RESOURCE…]",
		Short: "Rewrite every object of resources in the current storage version, and prove that none is left",
		Long: `Rewrite every object of the resources in the version in which the API servers store it now, and prove that none is left in
an older one.

migrate sends an empty patch for each object: the API server reads the object and stores it again. Nothing is created,
deleted or edited. An object that would lose fields, because the schema under which it would be stored does not have them,
is left alone and named; --accept-field-loss=spec.size accepts that this field is lost. Before the first write, the API
servers must have agreed on one version for the settle time, and the same servers must agree on it after the last write. The
evidence says how that is known: Observed means that every API server was asked. Where that is not possible, for example
behind a load balancer, migrate waits for another settle time and reads every object once more; success is Verified then.
After the proof, migrate prunes status.storedVersions of the CustomResourceDefinition to the storage version. If kube-migrator is installed and you may patch storagestates/status,
it records the proof in the StorageState of the resource; the report says whether it did, or why not.

RESOURCE is what kubectl accepts: widgets, widgets.demo.example.com, widgets.v2.demo.example.com. Custom resources are
rewritten at their storage version if it is served, whatever version is named. --all and --include skip a resource if its
StorageState says that all of it is stored in the current version, and objects of which it says so. No StorageState records
a rotated encryption key: add --force after a rotation.

Up to 16 resources are migrated at the same time; the bounds hold for all of them together. Within the default bounds of
--max-rate and --max-in-flight, other clients of the API server hardly notice a migration.
With --max-rate=0 --max-in-flight=0 it is as fast as the API server can take: the number of requests in flight follows
the server's latency and its 429 and 503.

With --contexts or --kubeconfig-dir, many clusters are migrated wave by wave: --wave-size clusters at the same time, in the
order of the patterns, and no wave has clusters of two patterns. The first wave in which a cluster has another exit code than
0 is the last one. The exit code is the first of 130, 1, 4, 3 and 2 that any cluster has.

Interrupt once to finish the requests in flight and save the checkpoint, twice to stop at once; --resume continues. Without
--resume a run starts over, which is what a rotated encryption key needs.

Exit codes: 0 proven (or nothing rejected in a dry run), 1 error, 2 the storage version changed or storedVersions could
not be pruned, 3 the API servers do not agree or the evidence is too weak, 4 finished, but some objects could not be
rewritten, 130 interrupted.`,
		Example: `  kube-migrator migrate widgets.demo.example.com
  kube-migrator migrate --all --exclude 'events' --max-rate 50
  kube-migrator migrate secrets --verify --reason 'key rotation'
  kube-migrator migrate --all --contexts 'canary-*,prod-*' --wave-size 10`,
		RunE: func(command *cobra.Command, args []string) error {
			c.selection.Names = args
			if err := c.check(); err != nil {
				return err
			}
			return c.interruptible(command.Context(), func(ctx context.Context, gentle <-chan struct{}) error {
				c.gentle = gentle
				if c.fleet.Given(command) {
					return c.runFleet(ctx)
				}
				return c.run(ctx)
			})
		},
	}
	c.add(c.command.Flags())
	return c
}

func (c *migrateCommand) add(flags *pflag.FlagSet) {
	c.selection.Add(flags)
	c.fleet.AddSelection(flags)
	arg.Number(flags, &c.waveSize, clusters.WaveSize, 1, arg.Within[int]{Least: 1, Unit: "clusters"},
		"How many of many clusters are migrated at the same time")
	dryRunVar(flags, &c.dryRun, "show what would be migrated",
		"send every patch as a dry run, which shows what admission and validation reject")
	flags.BoolVar(&c.options.Verify, "verify", false, "Add a second pass in which every object has to be at rest, also where each API server can be asked")
	flags.BoolVar(&c.options.RetryThroughStatus, "retry-through-status", false,
		"Rewrite an object that validation or admission refuses by an empty patch of its status, which most webhooks "+
			"and policies are not asked about")
	flags.StringVar(&c.reason, "reason", "", "The reason for the migration; the report repeats it")
	flags.BoolVar(&c.options.Resume, "resume", false,
		"Continue from the checkpoint; a resource that is finished in an unchanged epoch costs nothing")
	c.addSweep(flags)
	arg.FieldLoss(flags, &c.options.AcceptFieldLoss)
	arg.Number(flags, &c.options.PageSize, "page-size", 0, arg.Within[int64]{Unit: "objects"},
		"Objects per page of the list (0: as many as fit into half a MiB, at most 500)")
	flags.BoolVar(&c.keep, "keep-stored-versions", false, "Do not prune status.storedVersions after the proof")
	arg.Output(flags, &c.output, render.Text, render.JSON, render.YAML)
}

// addSweep adds the flags of every command that sweeps.
func (m *migration) addSweep(flags *pflag.FlagSet) {
	arg.Number(flags, &m.options.MaxObjectsPerSecond, "max-rate", arg.DefaultRate,
		arg.Within[float64]{Unit: objectsPerSecond},
		"Upper bound of objects per second (0: as many as the API server can take)")
	arg.Number(flags, &m.options.MaxInFlight, "max-in-flight", arg.DefaultInFlight, arg.Within[int]{Unit: "requests"},
		"Upper bound of requests in flight (0: 64)")
	arg.Bandwidth(flags, &m.options.MaxBytesPerSecond,
		"Upper bound of bytes per second, requests and responses together, such as 500k or 10Mi (0: no bound)")
	flags.BoolVar(&m.options.SingleAddress, "single-address", false,
		"Send every request to the address in the kubeconfig, instead of spreading the patches over all API servers")
	arg.Delay(flags, &m.options.SettleTime, arg.SettleTime, migrate.DefaultSettleTime, arg.SettleTimeUsage)
	arg.ShutdownDelay(flags, &m.shutdownDelay)
	arg.Delay(flags, &m.options.AgreementTimeout, "agreement-timeout", migrate.DefaultAgreementTimeout,
		"How long to wait for the API servers to agree")
	arg.Evidence(flags, &m.options.MinEvidence)
	flags.StringVar(&m.dir, "checkpoint-dir", "",
		"Folder for checkpoints (default: $XDG_STATE_HOME/kube-migrator, else ~/.local/state/kube-migrator)")
}

// objectsPerSecond is the unit of --max-rate.
const objectsPerSecond = "objects per second"

// dryRunVar adds --dry-run; client and server describe the two kinds of dry run.
func dryRunVar(flags *pflag.FlagSet, into *string, client, server string) {
	arg.Word(flags, into, "dry-run", dryRunNone, "none; client: "+client+"; server: "+server, dryRunNone,
		dryRunClient, dryRunServer)
}

// check returns an error for flags that contradict one another. It sends no request.
func (c *migrateCommand) check() error {
	arg.CompleteShutdownDelay(c.command, c.options.SettleTime, &c.shutdownDelay)
	c.countOnly, c.options.DryRun = c.dryRun == dryRunClient, c.dryRun == dryRunServer
	if err := c.fleet.Check(c.command); err != nil {
		return err
	}
	return c.selection.Check(c.command)
}

// run migrates the selected resources of the cluster, and shows the report.
func (c *migrateCommand) run(ctx context.Context) error {
	report, end := c.migrateAll(ctx)
	if report == nil {
		return end
	}
	if err := writeReport(c.Out, c.output, report); err != nil {
		return err
	}
	return end
}

// writeReport writes the report of a command that migrates.
func writeReport(out io.Writer, output render.Format, report interface{ Text(io.Writer) error }) (err error) {
	if output == render.Text {
		err = report.Text(out)
	} else {
		err = render.Data(out, output, report)
	}
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// migrateAll migrates the selected resources. The report is nil if nothing was started.
func (c *migrateCommand) migrateAll(ctx context.Context) (*render.Migrations, error) {
	_, resources, err := c.prepare(ctx, &c.selection)
	if err != nil {
		return nil, err
	}
	report := &render.Migrations{Reason: c.reason}
	if c.dryRun != dryRunNone {
		report.DryRun = c.dryRun
	}
	if len(resources) == 1 {
		m, err := c.migrate(ctx, resources[0])
		if err != nil && codeOf(err) != exit.Interrupted && m.Result.Started.IsZero() {
			return nil, c.explain(resources[0], err) // nothing was started, so the two lines of an error are enough
		}
		report.Resources = append(report.Resources, m)
		return report, codeError(codeOf(err))
	}
	code := c.several(ctx, resources, report)
	if left := len(resources) - len(report.Resources); left > 0 {
		fmt.Fprintf(c.Err, "%d resources were not started. To continue:\n  %s\n", left,
			c.again(c.selection.Arguments()...))
	}
	return report, codeError(code)
}

// codeError returns the error that makes the program end with an exit code.
func codeError(code int) error {
	if code == exit.Done {
		return nil
	}
	return exit.Code(code)
}

// several migrates resources, some at the same time within bounds that hold for all of them together (I8), until it is
// interrupted. It adds those that were started to the report, in the order of resources.
func (c *migrateCommand) several(ctx context.Context, resources []inventory.Resource, report *render.Migrations) int {
	c.again() // sorts the flags, which are read at the same time afterwards
	c.options.Bounds = migrate.NewBounds(c.options)
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		code    = exit.Done
		started = make([]*render.Migration, len(resources))
		next    = make(chan int)
	)
	for range min(worker.DefaultAtOnce, len(resources)) {
		wg.Go(func() {
			for i := range next {
				m, err := c.migrate(ctx, resources[i])
				mu.Lock()
				started[i], code = &m, exit.Worse(code, codeOf(err))
				mu.Unlock()
				c.sweeps.Say(m.Headline())
			}
		})
	}
	for i := range resources {
		mu.Lock()
		over := code == exit.Interrupted
		mu.Unlock()
		if over || interrupted(c.gentle) {
			break
		}
		select {
		case next <- i:
		case <-c.gentle:
		}
	}
	close(next)
	wg.Wait()
	for _, m := range started {
		if m != nil {
			report.Resources = append(report.Resources, *m)
		}
	}
	if len(report.Resources) < len(resources) {
		code = exit.Worse(code, exit.Interrupted)
	}
	return code
}

// runFleet migrates clusters wave by wave, and ends with the first wave in which a cluster was not migrated.
func (c *migrateCommand) runFleet(ctx context.Context) error {
	lists, err := c.fleet.Select(c.command, c.kubeconfig)
	if err != nil {
		return err
	}
	c.reached = &reachedClusters{names: map[string]string{}}
	if err := c.distinct(ctx, slices.Concat(lists...)); err != nil {
		return err
	}
	// This comes first because it sorts the flags, which the clusters of a wave read at the same time.
	again := c.again(c.selection.Arguments()...)
	q := inquiry{environment: c.environment, command: c.command, output: c.output, live: true,
		options: fleet.Options{Parallel: c.waveSize},
		ask: func(ctx context.Context, env *environment) (*render.FleetAnswer, error) {
			own := *c
			own.environment = env
			report, err := own.migrateAll(ctx)
			if report == nil {
				return nil, err
			}
			answer := render.MigrateAnswer(report)
			return &answer, err
		}}
	report := render.Fleet{What: "CLUSTER", Column: "OUTCOME"}
	report.Clusters = q.inWaves(ctx, c.gentle, fleet.Waves(lists, c.waveSize))
	var left []string
	for _, row := range report.Clusters {
		if row.Verdict == render.FleetNotStarted {
			left = append(left, row.Name)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(c.Err, "Not started: %s. To continue:\n  %s\n", phrase.Few(left), again)
	}
	return q.show(report, exit.Worse)
}

// distinct returns an error, before anything is migrated, if two of the clusters are the same. Clusters that do not
// answer are left to their wave, in which each one is added to c.reached before anything is written to it.
func (c *migrateCommand) distinct(ctx context.Context, all []*clusters.Cluster) error {
	ctx, stop := untilInterrupted(ctx, c.gentle)
	defer stop()
	results := fleet.Run(ctx, len(all), fleet.Options{Parallel: clusters.DefaultParallel, Timeout: clusters.DefaultTimeout},
		func(ctx context.Context, i int) (string, error) {
			return identity(ctx, c.at(all[i], io.Discard, io.Discard)), nil
		})
	for i, r := range results {
		if r.Value == "" {
			continue
		}
		if err := c.reached.add(r.Value, all[i].Name); err != nil {
			return err
		}
	}
	return nil
}

// reachedClusters are the clusters that a command migrates, by their identity. Two contexts of a kubeconfig may reach
// the same cluster, which must not be migrated twice at the same time (I8). It can be used concurrently.
type reachedClusters struct {
	mu    sync.Mutex
	names map[string]string // by identity
}

// add returns an error if the cluster of that identity has been added under another name.
func (r *reachedClusters) add(id, name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, known := r.names[id]; known && other != name {
		return exit.Try(fmt.Errorf("%s and %s reach the same cluster, which is migrated only once at a time", other, name),
			"kubectl config get-contexts")
	}
	r.names[id] = name
	return nil
}

func interrupted(gentle <-chan struct{}) bool {
	select {
	case <-gentle:
		return true
	default:
		return false
	}
}

// codeOf returns the exit code for the error of a sweep.
func codeOf(err error) int {
	switch {
	case err == nil:
		return exit.Done
	case errors.Is(err, migrate.ErrStopped), errors.Is(err, context.Canceled):
		return exit.Interrupted
	case errors.Is(err, migrate.ErrObjectsFailed):
		return exit.Failures
	case errors.Is(err, migrate.ErrNotProven), errors.Is(err, migrate.ErrNoAgreement):
		return exit.Undetermined
	case errors.Is(err, migrate.ErrStorageVersionMoved), errors.Is(err, errNotPruned):
		return exit.WorkLeft
	}
	return exit.Error
}
