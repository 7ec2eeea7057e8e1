// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/screen"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// errNotPruned says that the migration is proven and storedVersions still contains other versions.
var errNotPruned = errors.New("storedVersions was not pruned")

// migration migrates resources of one cluster, for migrate and for the commands that do so as one of their steps.
type migration struct {
	*environment
	command *cobra.Command
	options migrate.Options
	// shutdownDelay is agreement.Options.ShutdownDelay.
	shutdownDelay time.Duration
	// dir is the folder for checkpoints.
	dir string
	// countOnly is --dry-run=client.
	countOnly bool
	// keep leaves status.storedVersions as it is.
	keep bool
	// incremental leaves out what is proven: the user has asked for what is needed, and has named no resource.
	incremental bool
	// gentle is closed when no further request may be started.
	gentle <-chan struct{}
	// reached has the clusters that the members of a fleet migrate; nil without a fleet.
	reached *reachedClusters

	// These describe the cluster; reach and identify set them.
	*records.Client
	restConfig *rest.Config
	servers    *agreement.Observer
	cluster    string
	sweeps     *screen.Sweeps
}

// prepare reads the inventory, which it returns, and selects resources.
func (m *migration) prepare(ctx context.Context,
	selection *records.Selection) (*inventory.Inventory, []inventory.Resource, error) {
	m.incremental = len(selection.Names) == 0 && !selection.Force
	if err := m.reach(); err != nil {
		return nil, nil, err
	}
	all, err := inventory.Take(ctx, m.REST)
	if err != nil {
		return nil, nil, exit.Unreachable(m.Host, err)
	}
	resources, left, err := selection.From(all)
	if err != nil {
		return nil, nil, exit.NotFound(m.name, m.command, err)
	}
	if err := m.identify(ctx); err != nil {
		return nil, nil, err
	}
	if resources, err = m.SpareCurrent(ctx, selection, all, resources); err != nil {
		return nil, nil, err
	}
	m.WarnRolledBack(ctx, all, resources)
	for _, failure := range all.Failures {
		fmt.Fprintf(m.Err, "Skipped: %s\n", failure)
	}
	for _, r := range left {
		if r.Problem.Reason != inventory.NotPersisted {
			fmt.Fprintf(m.Err, "Skipped: %s: %s\n", r.GroupResource, r.Problem.Message)
		}
	}
	return all, resources, nil
}

// reach makes the client for the cluster. It sends no request.
func (m *migration) reach() (err error) {
	if m.restConfig, err = m.config(); err != nil {
		return err
	}
	m.Client, err = m.connectTo(m.restConfig)
	return err
}

// identify finds out which cluster it is, and prepares to migrate its resources.
func (m *migration) identify(ctx context.Context) (err error) {
	if m.cluster, err = clusterID(ctx, m.REST); err != nil {
		return exit.Try(fmt.Errorf("tell the cluster from others: %w", err), "kubectl auth can-i get namespaces")
	}
	if m.reached != nil {
		if err := m.reached.add(m.cluster, m.member.Name); err != nil {
			return err
		}
	}
	m.servers, err = agreement.NewObserver(m.restConfig, agreement.Options{ShutdownDelay: m.shutdownDelay})
	if err != nil {
		return err
	}
	m.sweeps = &screen.Sweeps{Out: m.Err, Terminal: m.errTerminal, SettleTime: m.options.SettleTime}
	if m.dir == "" {
		if m.dir, err = checkpoint.StateDir(); err != nil {
			return exit.Try(err, m.again("--checkpoint-dir=kube-migrator-checkpoints"))
		}
	}
	return nil
}

// limits returns the bounds of the load, for steps other than the sweep.
func (m *migration) limits() pace.Limits {
	return pace.Limits{ObjectsPerSecond: m.options.MaxObjectsPerSecond, InFlight: m.options.MaxInFlight,
		BytesPerSecond: m.options.MaxBytesPerSecond}
}

// stopped returns an error once the user wants no further request to be started.
func (m *migration) stopped() error {
	if interrupted(m.gentle) {
		return migrate.ErrStopped
	}
	return nil
}

// migrating reports whether another process of this machine is migrating a resource.
func (m *migration) migrating(resource schema.GroupResource) (bool, error) {
	return checkpoint.In(m.dir, m.cluster, resource.String()).Locked()
}

// migrate migrates one resource and reports. The error is the reason for the exit code.
func (m *migration) migrate(ctx context.Context, r inventory.Resource) (render.Migration, error) {
	report := render.Migration{Resource: r.GroupResource.String(), StorageVersion: r.Storage()}
	if r.CRD != nil {
		report.StoredVersionsBefore = r.CRD.StoredVersions
	}
	if m.countOnly {
		return m.announce(ctx, r, report)
	}
	file, err := checkpoint.New(m.dir, m.cluster, report.Resource)
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
	servers, options := m.servers.For(r.Target()), m.options
	options.Checkpoints = file
	record, err := m.recordOf(ctx, r, file)
	if err != nil {
		return m.fail(report, err)
	}
	if m.incremental && record != nil {
		options.Proven = worker.Proven(record.state.Before())
	}
	sweep, err := migrate.New(m.restConfig, r.Target(), servers, options)
	if err != nil {
		return m.fail(report, err)
	}
	result, err := m.watch(ctx, report.Resource, sweep)
	report.Result, report.Outcome = result, m.outcome(err)
	if last := servers.Explanation(); last.Evidence >= result.Epoch.Evidence.AtOnce() && last.Evidence > 0 {
		report.Evidence = last.Of(result.Epoch.Evidence).String()
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
	if m.options.DryRun {
		return nil, nil
	}
	before := &record{file: file, state: trigger.PrepareByHand(ctx, m.REST, r)}
	if m.options.Resume {
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
	objects, err := inventory.Count(ctx, m.REST, r)
	if err != nil {
		return m.fail(report, fmt.Errorf("count %s: %w", report.Resource, err))
	}
	report.Result.Total = objects.Count
	if report.Losses, err = inventory.Outlook(ctx, m.REST, r, m.options.AcceptFieldLoss); err != nil {
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
func (m *migration) watch(ctx context.Context, name string, sweep *migrate.Sweep) (migrate.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	var company sync.WaitGroup
	company.Go(func() { m.sweeps.Show(ctx, name, sweep) })
	company.Go(func() {
		select {
		case <-m.gentle:
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
	case err == nil && m.options.DryRun:
		return render.WouldPass
	case err == nil:
		return render.Proven
	case errors.Is(err, migrate.ErrObjectsFailed) && m.options.DryRun:
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
	if m.keep {
		report.StoredVersionsKept = "--keep-stored-versions"
		return nil
	}
	epoch := report.Result.Epoch
	pruned, err := storedversions.Prune(ctx, m.REST, storedversions.Proof{
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
	case m.countOnly || m.options.DryRun:
		return ""
	case errors.Is(err, migrate.ErrNotProven):
		reachable := report.Result.Epoch.Evidence.Reachable()
		if reachable >= m.options.MinEvidence { // its second pass found objects in another version
			return m.again(report.Resource)
		}
		return m.again(report.Resource, "--min-evidence="+strings.ToLower(reachable.String()))
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
func (m *migration) again(arguments ...string) string {
	return again(m.environment, m.command, arguments...)
}

// inEarnest is again without --dry-run.
func (m *migration) inEarnest(arguments ...string) string {
	return strings.ReplaceAll(m.again(arguments...), " --dry-run=true", "")
}

// readiness returns the command that helps if a resource is not ready to be migrated, or that shows what is wrong.
func (m *migration) readiness(r inventory.Resource, message string) string {
	if r.CRD == nil {
		return "kubectl get " + r.String() + " --all-namespaces"
	}
	return retire.Remedy(m.name, r.CRD.Name, r.CRD.Versions, message)
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
