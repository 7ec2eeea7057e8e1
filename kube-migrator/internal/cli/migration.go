// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/screen"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// errNotPruned says that the migration is proven and storedVersions still contains other versions.
var errNotPruned = errors.New("storedVersions was not pruned")

// migration contains what the runs for several resources have in common.
type migration struct {
	env     *environment
	command *cobra.Command
	flags   *migrateFlags
	config  *rest.Config
	client  rest.Interface
	servers *agreement.Observer
	cluster string
	sweeps  screen.Sweeps
	// all are the cluster's resources; they are set by prepare.
	all *inventory.Inventory
}

// prepare reads the inventory and selects resources.
func (env *environment) prepare(ctx context.Context, command *cobra.Command,
	f *migrateFlags) (*migration, []inventory.Resource, error) {
	config, err := env.config()
	if err != nil {
		return nil, nil, err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, nil, err
	}
	all, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, nil, exit.Unreachable(config.Host, err)
	}
	resources, left, err := f.selection.From(all)
	if err != nil {
		return nil, nil, exit.NotFound(env.name, command, err)
	}
	m, err := env.newMigration(ctx, command, f, config, client)
	if err != nil {
		return nil, nil, err
	}
	m.all = all
	q := env.records(config, client)
	if resources, err = q.SpareCurrent(ctx, &f.selection, all, resources); err != nil {
		return nil, nil, err
	}
	q.WarnRolledBack(ctx, all, resources)
	for _, failure := range all.Failures {
		fmt.Fprintf(env.Err, "Skipped: %s\n", failure)
	}
	for _, r := range left {
		if r.Problem.Reason != inventory.NotPersisted {
			fmt.Fprintf(env.Err, "Skipped: %s: %s\n", r.GroupResource, r.Problem.Message)
		}
	}
	return m, resources, nil
}

// newMigration prepares to migrate resources of a cluster.
func (env *environment) newMigration(ctx context.Context, command *cobra.Command, f *migrateFlags, config *rest.Config,
	client rest.Interface) (*migration, error) {
	cluster, err := clusterID(ctx, client)
	if err != nil {
		return nil, exit.Try(fmt.Errorf("tell the cluster from others: %w", err), "kubectl auth can-i get namespaces")
	}
	if env.member != nil {
		if err := env.reached.add(cluster, env.member.Name); err != nil {
			return nil, err
		}
	}
	servers, err := agreement.NewObserver(config, agreement.Options{ShutdownDelay: f.shutdownDelay})
	if err != nil {
		return nil, err
	}
	m := &migration{env: env, command: command, flags: f, config: config, client: client,
		servers: servers, cluster: cluster,
		sweeps: screen.Sweeps{Out: env.Err, Terminal: env.errTerminal, SettleTime: f.options.SettleTime}}
	if f.dir == "" {
		if f.dir, err = checkpoint.StateDir(); err != nil {
			return nil, exit.Try(err, m.again("--checkpoint-dir=kube-migrator-checkpoints"))
		}
	}
	return m, nil
}

// clusterID returns the UID of the namespace kube-system: all API servers of a cluster return the same, and no other
// cluster has it.
func clusterID(ctx context.Context, client rest.Interface) (string, error) {
	var namespace metav1.PartialObjectMetadata
	err := apiserver.Send(ctx, client.Get().AbsPath("/api/v1/namespaces/kube-system").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), &namespace)
	return string(namespace.UID), err
}

// resource migrates one resource and reports. The error is the reason for the exit code.
func (m *migration) resource(ctx context.Context, gentle <-chan struct{},
	r inventory.Resource) (render.Migration, error) {
	report := render.Migration{Resource: r.GroupResource.String(), StorageVersion: r.Storage()}
	if r.CRD != nil {
		report.StoredVersionsBefore = r.CRD.StoredVersions
	}
	if m.flags.dryRun == dryRunClient {
		return m.announce(ctx, r, report)
	}
	file, err := checkpoint.New(m.flags.dir, m.cluster, report.Resource)
	if err != nil {
		return m.fail(report, err)
	}
	unlock, err := file.Lock()
	if errors.Is(err, checkpoint.ErrLocked) {
		err = fmt.Errorf("another kube-migrator is migrating %s", report.Resource)
	}
	if err != nil {
		return m.fail(report, err)
	}
	defer unlock()
	servers := m.servers.For(r.Target())
	options := m.flags.options
	options.Checkpoints = file
	record, err := m.recordOf(ctx, r, file)
	if err != nil {
		return m.fail(report, err)
	}
	sweep, err := migrate.New(m.config, r.Target(), servers, options)
	if err != nil {
		return m.fail(report, err)
	}
	result, err := m.watch(ctx, gentle, report.Resource, sweep)
	report.Result, report.Outcome = result, m.outcome(err)
	if _, explanation, lookErr := servers.Look(ctx); lookErr == nil && explanation.Evidence == result.Epoch.Evidence {
		report.Evidence = explanation.String()
	}
	if err == nil && !options.DryRun {
		record.save(ctx, &report)
		err = m.prune(ctx, r, &report)
	}
	if err != nil {
		report.Error = exit.OneLine(err).Error()
		report.Next = m.next(report, err)
	}
	return report, err
}

// record is the StorageState in which the proof of a run is recorded.
type record struct {
	file *checkpoint.File
	// state is nil if the API server does not serve StorageStates.
	state   *trigger.ByHand
	resumed bool
}

// recordOf reads the StorageState before the run.
func (m *migration) recordOf(ctx context.Context, r inventory.Resource, file *checkpoint.File) (*record, error) {
	if m.flags.options.DryRun {
		return nil, nil
	}
	before := &record{file: file, state: trigger.PrepareByHand(ctx, m.client, r)}
	if m.flags.options.Resume {
		saved, err := file.Checkpoint()
		if err != nil {
			return nil, err
		}
		before.resumed = saved.Data != nil
	}
	return before, nil
}

// save records the proof, and reports whether it did.
func (r *record) save(ctx context.Context, report *render.Migration) {
	switch {
	case r.state == nil:
		return
	case r.resumed:
		report.StorageStateKept = "the run went on from a checkpoint, and what happened before it is not known; " +
			"without --resume it would be recorded"
		return
	}
	baseline := uint64(0)
	if c, err := r.file.Checkpoint(); err == nil {
		baseline = c.Summary.Baseline
	}
	report.StorageState, report.StorageStateKept = r.state.Record(ctx, report.Result.Epoch, baseline)
}

// announce is --dry-run=client.
func (m *migration) announce(ctx context.Context, r inventory.Resource,
	report render.Migration) (render.Migration, error) {
	report.Outcome = render.WouldRun
	objects, err := inventory.Count(ctx, m.client, r)
	if err != nil {
		return m.fail(report, fmt.Errorf("count %s: %w", report.Resource, err))
	}
	report.Result.Total = objects.Count
	if report.Losses, err = inventory.Outlook(ctx, m.client, r, m.flags.options.AcceptFieldLoss); err != nil {
		return m.fail(report, err)
	}
	return report, nil
}

func (m *migration) fail(report render.Migration, err error) (render.Migration, error) {
	report.Outcome, report.Error = render.Unfinished, exit.OneLine(err).Error()
	report.Next = m.next(report, err)
	return report, err
}

// watch runs the sweep and shows its progress.
func (m *migration) watch(ctx context.Context, gentle <-chan struct{}, name string,
	sweep *migrate.Sweep) (migrate.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	var company sync.WaitGroup
	company.Go(func() { m.sweeps.Show(ctx, name, sweep) })
	company.Go(func() {
		select {
		case <-gentle:
			sweep.Stop()
		case <-ctx.Done():
		}
	})
	defer context.AfterFunc(ctx, sweep.Abort)()
	result, err := sweep.Run(ctx)
	cancel()
	company.Wait()
	return result, err
}

func (m *migration) outcome(err error) render.Outcome {
	switch {
	case err == nil && m.flags.options.DryRun:
		return render.WouldPass
	case err == nil:
		return render.Proven
	case errors.Is(err, migrate.ErrObjectsFailed) && m.flags.options.DryRun:
		return render.WouldReject
	case errors.Is(err, migrate.ErrObjectsFailed):
		return render.Incomplete
	case errors.Is(err, migrate.ErrNotProven):
		return render.NotProven
	case codeOf(err) == exit.Interrupted:
		return render.Stopped
	}
	return render.Unfinished
}

// prune removes from a CRD's storedVersions the versions in which provably nothing is stored any more (I2).
func (m *migration) prune(ctx context.Context, r inventory.Resource, report *render.Migration) error {
	if r.CRD == nil {
		return nil
	}
	if m.flags.keep {
		report.StoredVersionsKept = "--keep-stored-versions"
		return nil
	}
	epoch := report.Result.Epoch
	pruned, err := storedversions.Prune(ctx, m.client, storedversions.Proof{
		Name: r.CRD.Name, UID: epoch.CRDUID, Generation: epoch.CRDGeneration, StorageVersion: r.CRD.StorageVersion,
	})
	if err != nil {
		report.StoredVersionsKept = exit.OneLine(err).Error()
		return fmt.Errorf("%w: %w", errNotPruned, err)
	}
	report.StoredVersionsBefore = pruned.Before
	if pruned.Written {
		report.StoredVersionsAfter = pruned.After
	}
	return nil
}

// next returns the command that continues after an error. After failures it retries only the failed objects, which the
// checkpoint contains.
func (m *migration) next(report render.Migration, err error) string {
	switch {
	case m.flags.dryRun != dryRunNone:
		return ""
	case errors.Is(err, migrate.ErrNotProven):
		return m.again(report.Resource, "--resume", "--min-evidence="+
			strings.ToLower(report.Result.Epoch.Evidence.String()))
	case errors.Is(err, migrate.ErrStorageVersionMoved):
		return m.again(report.Resource)
	case errors.Is(err, migrate.ErrWouldLoseFields):
		return m.look(report) // the same command would leave them alone again
	}
	return m.again(report.Resource, "--resume")
}

// look returns the command that shows the first object that was left alone.
func (m *migration) look(report render.Migration) string {
	if len(report.Result.Failures) == 0 {
		return ""
	}
	f := report.Result.Failures[0]
	words := []string{"kubectl", "get", shell.Quote(report.Resource), shell.Quote(f.Name), "-o", "yaml",
		"--show-managed-fields"}
	if f.Namespace != "" {
		words = append(words, "-n", shell.Quote(f.Namespace))
	}
	return strings.Join(words, " ")
}

// again returns this command line with other arguments.
func (m *migration) again(arguments ...string) string { return again(m.env, m.command, arguments...) }

// readiness returns the command that helps if a resource is not ready to be migrated, or that shows what is wrong.
func (m *migration) readiness(r inventory.Resource, message string) string {
	if r.CRD == nil {
		return "kubectl get " + r.String() + " --all-namespaces"
	}
	stranded := retire.StrandedBy(r.Group, r.CRD.Versions, message)
	switch {
	case stranded != "":
		return m.env.name + " retire " + r.CRD.Name + " --version=" + stranded + " --rescue"
	case strings.Contains(message, "conversion webhook"):
		return "kubectl get customresourcedefinition " + r.CRD.Name + " -o jsonpath='{.spec.conversion}'"
	case strings.Contains(message, "/registry/"):
		return "kubectl get " + r.CRD.Name + " --all-namespaces"
	}
	return "kubectl describe customresourcedefinition " + r.CRD.Name
}

// explain turns an error that ended the run before it started into the two lines of every error.
func (m *migration) explain(r inventory.Resource, err error) error {
	if known := (*exit.Hint)(nil); errors.As(err, &known) {
		return err
	}
	switch {
	case errors.Is(err, migrate.ErrForbidden):
		return exit.Try(err, "kubectl auth can-i --list")
	case errors.Is(err, migrate.ErrNotReady):
		return exit.Try(err, m.readiness(r, err.Error()))
	}
	return exit.TryCode(err, m.again(r.GroupResource.String()), codeOf(err))
}
