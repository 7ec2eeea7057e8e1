// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller"
	migrations "github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/migration"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	workersAsJobs    = "jobs"
	workersInProcess = "in-process"
	bootstrapAll     = "all"
	bootstrapNone    = "none"
)

// controllerCommand is the command controller and its flags.
type controllerCommand struct {
	*environment
	command     *cobra.Command
	options     migrations.Options
	trigger     trigger.Options
	workers     string
	bootstrap   string
	autoTrigger bool
}

func newControllerCommand(env *environment) *cobra.Command {
	c := &controllerCommand{environment: env}
	c.command = &cobra.Command{
		Use:   "controller",
		Short: "Request and carry out migrations; runs in the cluster",
		Long: `Keep a StorageState of every resource, which records the versions in which it may be stored; request a migration if that is
more than the current version; and carry out the StorageVersionMigrations of the cluster, each in a Job. install deploys this
command into the cluster.

With --leader-elect, one of several controllers is active. On SIGTERM the controller ends within 10 seconds: workers in its
process finish the requests in flight and save their checkpoints; Jobs continue. Metrics are served with TLS to users who
may get the path /metrics.`,
		Args: arg.None,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.run(command.Context())
		},
	}
	c.add(c.command.Flags())
	return c.command
}

func (c *controllerCommand) add(flags *pflag.FlagSet) {
	o := &c.options
	flags.StringVarP(&o.Namespace, "namespace", "n", "kube-migrator",
		"Namespace of the installation: Jobs, checkpoints and the Lease")
	arg.Word(flags, &c.workers, "workers", workersAsJobs,
		"Where migrations run. jobs: in Jobs; in-process: in this process, for a controller outside of the cluster",
		workersAsJobs, workersInProcess)
	flags.StringVar(&o.WorkerImage, "worker-image", "", "Image of the Jobs' pods")
	flags.StringVar(&o.WorkerImagePullPolicy, "worker-image-pull-policy", "IfNotPresent",
		"Pull policy of the Jobs' pods: Always, IfNotPresent or Never")
	flags.StringVar(&c.trigger.WorkerRole, "worker-role", "",
		"ClusterRole to which the controller adds the permissions that workers need for resources that are added later "+
			"(default: add nothing)")
	flags.StringVar(&c.trigger.VersionsRole, "worker-versions-role", "",
		"ClusterRole in which the controller says at which versions workers may rewrite each resource (default: none)")
	flags.StringVar(&o.WorkerServiceAccount, "worker-service-account", "kube-migrator-worker",
		"ServiceAccount of the Jobs' pods")
	arg.Number(flags, &o.MaxConcurrent, "max-concurrent-migrations", worker.DefaultAtOnce,
		arg.Within[int]{Least: 1, Unit: "migrations"},
		"Upper bound of migrations that run at one time, never two of one resource; those at one pace keep its "+
			"bounds together")
	flags.BoolVar(&c.autoTrigger, "auto-trigger", true,
		"Request a migration if a resource may be stored in more than its current version; false: only record that "+
			"in StorageStates")
	arg.Word(flags, &c.bootstrap, "bootstrap", bootstrapAll,
		"all: also request migrations of resources whose stored versions are unknown; none: only of those that were "+
			"requested once",
		bootstrapAll, bootstrapNone)
	flags.StringSliceVar(&c.trigger.Include, "include", nil,
		"Request migrations only of resources that match a pattern of full names")
	flags.StringSliceVar(&c.trigger.Exclude, "exclude", nil,
		"Do not request migrations of resources that match a pattern of full names")
	arg.Duration(flags, &c.trigger.Period, "discovery-period", trigger.DefaultPeriod, time.Second,
		"How often to ask all API servers what they store if nothing changes")
	addPace(flags, &c.trigger.Pace, 0, 0)
	addSettings(flags, &o.Settings)
	arg.Duration(flags, &o.RetryAfter, "retry-after", migrations.DefaultRetryAfter, time.Nanosecond,
		"How long after its first failure to retry a migration; doubled each time, at most 6h")
	flags.BoolVar(&o.KeepStoredVersions, "keep-stored-versions", false,
		"Do not prune status.storedVersions after the proof")
	flags.BoolVar(&o.LeaderElect, "leader-elect", true,
		"Be active only while holding the Lease kube-migrator-controller")
	arg.Duration(flags, &o.LeaseDuration, "lease-duration", migrations.DefaultLeaseDuration, 2*time.Second,
		"How long after the last renewal another controller may take over the Lease")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "Where metrics are served; 0: nowhere")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "",
		"Folder with tls.crt and tls.key for serving metrics, reloaded when they change (default: a self-signed "+
			"certificate)")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081",
		"Where /healthz and /readyz are served; 0: nowhere")
}

// addSettings adds the flags of what the controller passes on to its workers.
func addSettings(flags *pflag.FlagSet, s *worker.Settings) {
	arg.Evidence(flags, &s.MinEvidence)
	arg.Duration(flags, &s.SettleTime, arg.SettleTime, migrate.DefaultSettleTime, time.Nanosecond, arg.SettleTimeUsage)
	arg.ShutdownDelay(flags, &s.ShutdownDelay)
}

// check returns an error for flags that contradict one another. It sends no request.
func (c *controllerCommand) check() error {
	o := &c.options
	if c.workers == workersAsJobs && o.WorkerImage == "" {
		return arg.Missing(c.command, "worker-image")
	}
	if err := arg.Patterns(slices.Concat(c.trigger.Include, c.trigger.Exclude)); err != nil {
		return exit.Usage(c.command, err)
	}
	arg.CompleteShutdownDelay(c.command, o.Settings.SettleTime, &o.Settings.ShutdownDelay)
	c.trigger.ShutdownDelay = o.Settings.ShutdownDelay
	o.InProcess = c.workers == workersInProcess
	c.trigger.Paused, c.trigger.RollbackAccepted = install.Paused, install.RollbackAccepted
	c.trigger.RecordOnly, c.trigger.Bootstrap = !c.autoTrigger, c.bootstrap == bootstrapAll
	return nil
}

func (c *controllerCommand) run(ctx context.Context) error {
	impatient, err := c.impatientConfig()
	if err != nil {
		return err
	}
	impatient.QPS = -1                // the signals of API servers and the pace of workers bound the load
	c.options.LeaseConfig = impatient // the Lease could expire if its renewal had to wait because of a sweep's 429
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this process: %w", err)
	}
	c.options.Identity = host + "_" + string(uuid.NewUUID())
	c.options.Logger = slog.New(slog.NewTextHandler(c.Err, nil))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = controller.Run(ctx, migrate.WithSharedBackoff(impatient),
		controller.Options{Migration: c.options, Trigger: c.trigger})
	switch {
	case errors.Is(err, trigger.ErrRestored):
		return exit.Try(fmt.Errorf("%w; every StorageState now says Unknown, and the controller has to be restarted",
			err), "kubectl get storagestates.migration.k8s.io")
	case errors.Is(err, migrations.ErrLeaseLost):
		return exit.Try(err, "kubectl get lease -n "+c.options.Namespace+" kube-migrator-controller -o yaml")
	case err != nil:
		return exit.Try(err, "kubectl auth can-i --list --as system:serviceaccount:"+c.options.Namespace+
			":kube-migrator-controller")
	}
	return nil
}

// workerCommand is the command that the pods of the controller's Jobs run. Users do not need it.
type workerCommand struct {
	*environment
	command *cobra.Command
	options worker.ServeOptions
}

func newWorkerCommand(env *environment) *cobra.Command {
	c := &workerCommand{environment: env}
	c.command = &cobra.Command{
		Use:    "worker",
		Short:  "Carry out runs of StorageVersionMigrations; the controller starts this",
		Args:   arg.None,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := c.check(); err != nil {
				return err
			}
			return c.interruptible(command.Context(), c.run)
		},
	}
	c.add(c.command.Flags())
	return c.command
}

func (c *workerCommand) add(flags *pflag.FlagSet) {
	flags.StringVar(&c.options.Namespace, "namespace", "", "Namespace of the ConfigMaps")
	flags.StringVar(&c.options.Roster, "roster", "",
		"Name of the ConfigMap in which the controller writes which runs to carry out")
	addSettings(flags, &c.options.Settings)
}

// check returns an error for flags that contradict one another. It sends no request.
func (c *workerCommand) check() error {
	for _, flag := range []string{"namespace", "roster"} {
		if !c.command.Flags().Changed(flag) {
			return arg.Missing(c.command, flag)
		}
	}
	arg.CompleteShutdownDelay(c.command, c.options.Settings.SettleTime, &c.options.Settings.ShutdownDelay)
	return nil
}

// run carries out runs until there are no more. Any other end is an error, so that the Job starts another pod: a
// worker may complete the Job only after it has announced that it accepts no further run.
func (c *workerCommand) run(ctx context.Context, gentle <-chan struct{}) error {
	options := c.options
	var err error
	if options.Config, err = c.config(); err != nil {
		return err
	}
	options.Stop, options.Logger = gentle, slog.New(slog.NewTextHandler(c.Err, nil))
	err = worker.Serve(ctx, options)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrStopped):
		return exit.Code(exit.Error) // the log contains the error
	}
	return exit.Try(err, "kubectl get configmaps --namespace="+shell.Quote(options.Namespace)+" "+
		shell.Quote(options.Roster)+" -o yaml")
}
