// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package operator migrates the custom resources of an operator when the operator starts: after a release that has moved
// the storage version of a CustomResourceDefinition from v1 to v2, so that a later release can remove v1. It is the
// simplest use of package migrate. With controller-runtime:
//
//	err := manager.Add(&operator.Migration{
//		Config:    manager.GetConfig(),
//		Resource:  schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
//		Namespace: "widgets-system",
//	})
//
// Without it, call [Migration.Start] in a goroutine, in the leader only. The folder examples/operator has a complete
// program.
//
// # Permissions
//
// In addition to those for its work, the ServiceAccount of the operator needs:
//
//   - in a ClusterRole: list, get and patch on the custom resource; get on its CustomResourceDefinition and patch on
//     that one's status; get on the APIService of each of its versions (v1.demo.example.com);
//   - in a Role in kube-system: list on leases of coordination.k8s.io;
//   - in a Role in default: list on endpointslices of discovery.k8s.io;
//   - in a Role in Namespace: get, create and update on configmaps.
//
// Without the Leases and EndpointSlices the API servers cannot be asked one by one, and a run reads everything twice. So
// does one whose API servers are older than 1.35, without get on the nonResourceURL /metrics.
// The file rbac.yaml in examples/operator grants exactly this.
package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Migration migrates one custom resource: it rewrites every object in the storage version, and then removes the other
// versions from status.storedVersions of the CustomResourceDefinition. It implements the interfaces Runnable and
// LeaderElectionRunnable of controller-runtime's package manager.
type Migration struct {
	// Config is the configuration for the cluster, such as that of a manager. It is not changed. Required.
	Config *rest.Config
	// Resource is the plural name and the group of the custom resource. Required.
	Resource schema.GroupResource
	// Namespace is where the checkpoint is kept, in the ConfigMap "<plural>.<group>-migration": the namespace of the
	// operator. Required.
	Namespace string
	// Servers says how the API servers are asked which version they write. The zero value is a complete set of
	// defaults.
	Servers agreement.Options
	// Options are those of the sweep; Start sets Checkpoints and Resume. The zero value is a complete set of defaults.
	Options migrate.Options
}

// The waits after an attempt that failed: the first, and the longest.
const (
	firstWait   = 10 * time.Second
	longestWait = 30 * time.Minute
)

// NeedLeaderElection implements controller-runtime's LeaderElectionRunnable: only one sweep of a resource may run at a
// time, so only the leader migrates.
func (m *Migration) NeedLeaderElection() bool { return true }

// Start migrates the resource, and returns nil when that is done or ctx ends. The end of ctx is gentle, and the next
// Start resumes. An operator works as well while old objects are stored, so a failure is no reason to end it: Start logs
// the failure to Options.Logger and tries again, at first after 10 seconds, later after 30 minutes.
func (m *Migration) Start(ctx context.Context) error {
	m.repeat(ctx, m.Run)
	return nil
}

// repeat calls attempt until it succeeds or ctx ends.
func (m *Migration) repeat(ctx context.Context, attempt func(context.Context) error) {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := attempt(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		m.logger().Error("The migration is not complete, it is tried again", "resource", m.Resource.String(), "error", err,
			"wait", wait)
		if pace.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// Run makes one attempt of the migration. It returns nil if status.storedVersions is the storage version alone, because
// this attempt or an earlier one has completed the migration. Otherwise the error is one of package migrate; the next
// attempt resumes.
func (m *Migration) Run(ctx context.Context) error {
	config := migrate.WithSharedBackoff(m.Config)
	if done, err := m.isDone(ctx, config); err != nil || done {
		return err
	}
	target, err := migrate.Find(ctx, config, m.Resource)
	if err != nil {
		return err
	}
	if target.Origin != migrate.Custom {
		return fmt.Errorf("migrate %s: it is not a custom resource", m.Resource)
	}
	servers, err := agreement.Of(config, target, m.Servers)
	if err != nil {
		return err
	}
	options := m.Options
	options.Resume = true
	options.Checkpoints, err = migrate.ConfigMapCheckpoints(config, m.Namespace, m.Resource.String()+"-migration")
	if err != nil {
		return err
	}
	sweep, err := migrate.New(config, target, servers, options)
	if err != nil {
		return err
	}
	result, err := sweep.Run(ctx)
	for _, f := range result.Failures {
		m.logger().Error("An object cannot be rewritten", "resource", m.Resource.String(), "namespace", f.Namespace, "name", f.Name,
			"reason", f.Reason, "message", f.Message)
	}
	if err != nil {
		return err
	}
	return m.prune(ctx, config, sweep, result)
}

// isDone reports whether an earlier attempt has completed the migration.
func (m *Migration) isDone(ctx context.Context, config *rest.Config) (bool, error) {
	client, err := apiserver.NewClient(config)
	if err != nil {
		return false, err
	}
	d, err := crd.Get(ctx, client, crd.Name(m.Resource))
	if err != nil {
		return false, fmt.Errorf("read CustomResourceDefinition %s: %w", m.Resource, err)
	}
	return slices.Equal(d.Status.StoredVersions, []string{d.StorageVersion()}), nil
}

// prune removes what the sweep has proven to be stored no more.
func (m *Migration) prune(ctx context.Context, config *rest.Config, sweep *migrate.Sweep, result migrate.Result) error {
	proof, err := sweep.Proof()
	if errors.Is(err, migrate.ErrNoProof) && m.Options.DryRun {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := migrate.PruneStoredVersions(ctx, config, proof); err != nil {
		return err
	}
	m.logger().Info("Every object is stored in the storage version, the others are no longer in status.storedVersions",
		"resource", m.Resource.String(), "evidence", result.Epoch.Evidence)
	return nil
}

func (m *Migration) logger() *slog.Logger {
	if m.Options.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return m.Options.Logger
}
