// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration is the controller that carries out StorageVersionMigrations, by default 16 at a time.
//
// It owns the status of StorageVersionMigrations, the runs (the ConfigMaps of their checkpoints), the workers that
// carry them out (in Jobs, or in this process), and the verdict: only this package turns a run into a success, and only
// after that a CRD's storedVersions are pruned. It never rewrites objects itself, never edits a spec, and never uses
// its own status as evidence of what is stored.
//
// A pass reads what there is to do and what is at work, decides purely (planAll), and acts. Invariants:
//   - I2, I4: Succeeded follows a proven run only after this package has compared its epoch once more, after the
//     worker's last report.
//   - I4: a status repeats a report only as long as the report is fresh; silence is reported, and ends the run
//     (giveUp).
//   - I5: a process may die after any request. Checkpoints have names that the next pass finds, and Jobs have rosters;
//     statuses are written under the resourceVersion of the decision.
//   - I6: a pass looks at the migrations that are not at rest, and at those that have runs: migrations that have
//     succeeded cost nothing. The cache keeps a few KiB of each migration, however large it is (stripped).
//   - I8: one goroutine of one leader decides whose turn it is, from runs that are read past the cache, and the fence
//     keeps a leader that lost its Lease without noticing from writing.
package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/scrape"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Options of the controller.
type Options struct {
	// Namespace is that of the installation: it contains Jobs, checkpoints and the Lease. Required.
	Namespace string
	// InProcess carries out runs in this process instead of Jobs.
	InProcess bool
	// WorkerImage, WorkerImagePullPolicy and WorkerServiceAccount are those of the Jobs' pods.
	WorkerImage           string
	WorkerImagePullPolicy string
	WorkerServiceAccount  string
	// MaxConcurrent bounds the migrations at work. 0 means 16. Those at one pace keep its bounds together.
	MaxConcurrent int
	// Settings are those of every worker. The controller itself keeps to them, too.
	Settings worker.Settings
	// RetryAfter is how long after its first failure a migration is tried again. It doubles each time, up to 6 hours. 0
	// means 10 minutes.
	RetryAfter time.Duration
	// KeepStoredVersions disables pruning of storedVersions.
	KeepStoredVersions bool
	// LeaderElect makes exactly one of several controllers act. LeaseDuration is how long the others wait for a leader
	// that has stopped. 0 means 15 seconds.
	LeaderElect   bool
	LeaseDuration time.Duration
	// LeaseConfig is the configuration with which the Lease is renewed. nil means the configuration of everything else.
	// Its requests must never wait for others.
	LeaseConfig *rest.Config
	// Identity identifies this process among the candidates for leadership. Required with LeaderElect.
	Identity string
	// MetricsAddress and HealthAddress are where metrics and probes are served; "0" disables them. Metrics are served
	// over TLS, to users who may get the path.
	MetricsAddress, HealthAddress string
	// MetricsCertDir is CertDir of scrape.Options.
	MetricsCertDir string
	// Unrecorded reports whether the proof of a migration that has succeeded is still to be recorded elsewhere. Such a
	// migration does not expire. nil: no proof is.
	Unrecorded func(ctx context.Context, reader client.Reader, m *v1alpha1.StorageVersionMigration) (bool, error)
	// Also adds further controllers that share this process, its cache, its Lease and its fence. nil adds none.
	Also func(m manager.Manager, fenced *rest.Config) error
	// Logger is for the operators of kube-migrator; nil discards it.
	Logger *slog.Logger
}

// Defaults of Options.
const (
	DefaultRetryAfter    = 10 * time.Minute
	DefaultLeaseDuration = 15 * time.Second
)

func (o Options) withDefaults() Options {
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = worker.DefaultAtOnce
	}
	if o.Settings.MinEvidence == 0 {
		o.Settings.MinEvidence = migrate.Verified
	}
	if o.Settings.SettleTime == 0 {
		o.Settings.SettleTime = migrate.DefaultSettleTime
	}
	if o.Settings.ShutdownDelay == 0 {
		o.Settings.ShutdownDelay = agreement.DefaultShutdownDelay
	}
	if o.RetryAfter == 0 {
		o.RetryAfter = DefaultRetryAfter
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrLeaseLost reports that another controller may lead now. The process has to restart.
var ErrLeaseLost = errors.New("leader election lost")

// Run runs the controller until the context ends. Then workers of this process finish their requests in flight and save
// their checkpoints, and the Lease is released. Call it only once per process, because it registers metrics.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	o := options.withDefaults()
	log := logr.FromSlogHandler(o.Logger.Handler())
	ctrllog.SetLogger(log) // for code that logs without having been given a logger
	guarded, lock, err := guard(config, o)
	if err != nil {
		return fmt.Errorf("set up leader election: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return fmt.Errorf("set up scheme: %w", err)
	}
	guarded = bounded.Config(guarded) // pages of lists have limits of their own
	m, err := manager.New(guarded, manager.Options{
		Scheme: scheme, Logger: log, Cache: cacheOptions(o.Namespace),
		LeaderElection: o.LeaderElect, LeaderElectionResourceLockInterface: lock, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.LeaseDuration, RenewDeadline: new(renewDeadline(o)), RetryPeriod: new(o.LeaseDuration / 7),
		Metrics:                metricsserver.Options{BindAddress: "0"}, // package scrape serves them
		HealthProbeBindAddress: o.HealthAddress,
		// Controllers of one process share the registry; in tests the name is not unique.
		GracefulShutdownTimeout: new(graceful + time.Second),
	})
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	if err := add(ctx, m, guarded, o); err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	if o.MetricsAddress != "0" {
		// This is not the guarded configuration, because reviews change nothing and every replica serves its metrics.
		server, err := scrape.New(ctx, scrape.Options{
			Address: o.MetricsAddress, CertDir: o.MetricsCertDir, Config: config,
			Metrics: ctrlmetrics.Registry, Logger: o.Logger,
		})
		if err != nil {
			return fmt.Errorf("set up metrics: %w", err)
		}
		if err := m.Add(server); err != nil {
			return fmt.Errorf("set up metrics: %w", err)
		}
	}
	if o.Also != nil {
		if err := o.Also(m, guarded); err != nil {
			return fmt.Errorf("set up controller: %w", err)
		}
	}
	o.Logger.Info("Starting the controller", "namespace", o.Namespace, "inProcess", o.InProcess,
		"leaderElection", o.LeaderElect)
	if err := m.Start(ctx); err != nil {
		if ctx.Err() == nil && err.Error() == ErrLeaseLost.Error() {
			return ErrLeaseLost
		}
		return fmt.Errorf("run controller: %w", err)
	}
	return nil
}

func renewDeadline(o Options) time.Duration { return o.LeaseDuration * 2 / 3 }

// guard returns a configuration that writes only while the Lease belongs to us, and the lock that knows.
func guard(config *rest.Config, o Options) (*rest.Config, resourcelock.Interface, error) {
	if !o.LeaderElect {
		return config, nil, nil
	}
	own := rest.CopyConfig(cmp.Or(o.LeaseConfig, config))
	own.Timeout = max(time.Second, renewDeadline(o)/2) // a hanging request must not cost the Lease
	leases, err := coordinationv1client.NewForConfig(own)
	if err != nil {
		return nil, nil, err
	}
	lock := &resourcelock.LeaseLock{Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity}}
	lock.LeaseMeta.Namespace, lock.LeaseMeta.Name = o.Namespace, "kube-migrator-controller"
	f := &fence{Interface: lock, valid: renewDeadline(o)}
	return f.wrap(config), f, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme, eventsv1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// cacheOptions cache only what the passes read. That does not include the data of checkpoints, which only workers need.
func cacheOptions(namespace string) cache.Options {
	ours := cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Label:      labels.SelectorFromSet(labels.Set{componentLabel: workerComponent, nameLabel: program}),
	}
	checkpoints := ours
	checkpoints.Transform = func(object any) (any, error) {
		if c, ok := object.(*corev1.ConfigMap); ok {
			c.BinaryData, c.ManagedFields = nil, nil
		}
		return object, nil
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      newInformer,
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}: ours, &corev1.ConfigMap{}: checkpoints,
			&v1alpha1.StorageVersionMigration{}: {Transform: strip},
		},
	}
}

// add adds all runnables to the manager.
func add(ctx context.Context, m manager.Manager, config *rest.Config, o Options) error {
	restClient, err := apiserver.NewClient(config)
	if err != nil {
		return err
	}
	servers, err := agreement.NewObserver(config, agreement.Options{
		DiscoveryToken: discovery.Tokens(restClient, o.Namespace), ShutdownDelay: o.Settings.ShutdownDelay,
	})
	if err != nil {
		return err
	}
	counters, err := newMetrics(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	ended := make(chan event.TypedGenericEvent[client.Object], 1)
	if err := index(ctx, m.GetFieldIndexer()); err != nil {
		return err
	}
	carriers, err := runsOf(m, config, o, func() {
		select {
		case ended <- event.TypedGenericEvent[client.Object]{Object: &v1alpha1.StorageVersionMigration{}}:
		default: // a look is due already
		}
	})
	if err != nil {
		return err
	}
	if err := m.AddHealthzCheck("ping", ping); err != nil {
		return err
	}
	if err := m.AddReadyzCheck("cache", synced(m.GetCache())); err != nil {
		return err
	}
	c := &controller{
		client: m.GetClient(), cache: m.GetCache(), live: m.GetAPIReader(), rest: restClient, runs: carriers,
		judge: &judge{client: restClient, servers: servers, minEvidence: o.Settings.MinEvidence,
			keep: o.KeepStoredVersions},
		events: m.GetEventRecorder("kube-migrator"), metrics: counters, log: o.Logger, most: o.MaxConcurrent,
		firstRetry: o.RetryAfter, settleTime: o.Settings.SettleTime, unrecorded: o.Unrecorded,
	}
	return watch(m, c, ended, o)
}

// runsOf returns what carries out runs.
func runsOf(m manager.Manager, config *rest.Config, o Options, ended func()) (runs, error) {
	s := store{
		namespace: o.Namespace, settings: o.Settings,
		client: m.GetClient(), live: m.GetAPIReader(), log: o.Logger,
	}
	if !o.InProcess {
		return &jobs{store: s, image: o.WorkerImage, imagePullPolicy: corev1.PullPolicy(o.WorkerImagePullPolicy),
			serviceAccount: o.WorkerServiceAccount}, nil
	}
	shared, err := worker.NewProcess(config, o.Namespace, o.Settings)
	if err != nil {
		return nil, err
	}
	p := &inProcess{store: s, shared: shared, log: o.Logger, ended: ended, workers: map[string]*inProcessWorker{}}
	return p, m.Add(p)
}

// watch makes every change lead to a pass soon. Changes that happen together lead to one pass.
func watch(m manager.Manager, c *controller, ended chan event.TypedGenericEvent[client.Object], o Options) error {
	pass := handler.TypedEnqueueRequestsFromMapFunc(func(context.Context,
		client.Object) []request {
		return []request{{}}
	})
	b := builder.TypedControllerManagedBy[request](m).Named("migration").
		WithOptions(ctrlcontroller.TypedOptions[request]{
			MaxConcurrentReconciles: 1, SkipNameValidation: new(true), // several controllers in one process, in tests
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[request](settleInterval, 10*time.Second),
		}).
		Watches(&v1alpha1.StorageVersionMigration{}, handler.TypedEnqueueRequestsFromMapFunc(requestsOf)).
		Watches(&corev1.ConfigMap{}, pass).
		WatchesRawSource(source.TypedChannel(ended, pass))
	if !o.InProcess {
		b = b.Watches(&batchv1.Job{}, pass)
	}
	return b.Complete(c)
}
