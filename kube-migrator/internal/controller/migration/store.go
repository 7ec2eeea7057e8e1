// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// store contains the checkpoints of runs: ConfigMaps in the installation's namespace.
type store struct {
	namespace string
	settings  worker.Settings
	client    client.Client // reads from the cache
	live      client.Reader // reads from the API server
	log       *slog.Logger
}

func (s store) reader(live bool) client.Reader {
	if live {
		return s.live
	}
	return s.client
}

// ours selects the objects that belong to runs.
func (s store) ours() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.namespace),
		client.MatchingLabels{componentLabel: workerComponent, nameLabel: program}}
}

// configMaps returns the ConfigMaps of checkpoints and rosters, or some of them.
func (s store) configMaps(ctx context.Context, live bool, some ...client.ListOption) ([]corev1.ConfigMap, error) {
	found := new(corev1.ConfigMapList)
	if err := s.reader(live).List(ctx, found, append(s.ours(), some...)...); err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return found.Items, nil
}

// runsOf returns the runs whose checkpoints are among ConfigMaps.
func (s store) runsOf(found []corev1.ConfigMap) []run {
	var all []run
	for i := range found {
		if _, is := found[i].Labels[rosterLabel]; is {
			continue
		}
		if r, ours := s.identify(&found[i]); ours {
			r.read(&found[i])
			all = append(all, r)
		}
	}
	return all
}

// identify reads which run an object belongs to. An object whose annotations are missing, because someone edited them,
// is a run of no generation: it counts as long as its worker may write (I8), and is removed like the runs of older
// generations. An object that names no migration is not ours.
func (s store) identify(o metav1.Object) (r run, ours bool) {
	r, err := runOf(o)
	if err != nil {
		s.log.Warn("Cannot read which run an object belongs to", "name", o.GetName(), "error", err)
	}
	return r, err == nil || r.uid != ""
}

// read adds the worker's report to the run. A report that cannot be read breaks this run and no other.
func (r *run) read(checkpoint *corev1.ConfigMap) {
	report, err := worker.ReadReport(checkpoint)
	if err != nil {
		r.broken = "its report cannot be read: " + err.Error()
	}
	r.report = report
}

// giveUp writes the outcome of a run whose worker no longer reports, unless it has reported in the meantime.
func (s store) giveUp(ctx context.Context, r run, why string) (given bool, err error) {
	checkpoint := new(corev1.ConfigMap)
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: r.name}, checkpoint); err != nil {
		return false, err
	}
	if now, err := worker.ReadReport(checkpoint); err == nil && now != nil && !now.Updated.Equal(r.updated()) {
		return false, nil
	}
	if err := worker.GiveUp(checkpoint, r.generation, r.attempt, why, time.Now()); err != nil {
		return false, fmt.Errorf("give up run %s: %w", r.name, err)
	}
	// The write carries the resourceVersion that was read, so that a report of the worker takes precedence.
	err = s.client.Update(ctx, checkpoint)
	return err == nil, err
}

// createCheckpoint creates the ConfigMap of a run, with the checkpoint of the run named seed and with what is proven. It
// does not change an existing one, which belongs to the worker from its creation on.
func (s store) createCheckpoint(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error {
	owner := *metav1.NewControllerRef(m, v1alpha1.SchemeGroupVersion.WithKind("StorageVersionMigration"))
	checkpoint := &corev1.ConfigMap{ObjectMeta: r.metadata(s.namespace, owner)}
	if seed != "" {
		from := new(corev1.ConfigMap)
		switch err := s.live.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: seed}, from); {
		case err == nil:
			checkpoint.BinaryData = worker.Seed(from)
		case !apierrors.IsNotFound(err): // without it the run starts over, which only costs time
			return fmt.Errorf("read checkpoint %s: %w", seed, err)
		}
	}
	proven, err := s.proven(ctx, m)
	if err == nil {
		err = worker.AddProven(checkpoint, proven)
	}
	if err != nil {
		return err
	}
	if err := s.client.Create(ctx, checkpoint); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create checkpoint %s: %w", checkpoint.Name, err)
	}
	return nil
}

// proven returns what a run of the present generation need not rewrite: nothing, unless the trigger requested it. A
// manifest that was copied and applied again may say so too, but has no status. The StorageState is read from the API
// server: after a restore of etcd a cache may still hold what is no longer true (I10).
func (s store) proven(ctx context.Context, m *v1alpha1.StorageVersionMigration) (migrate.Proven, error) {
	if m.Spec.IncrementalGeneration != m.Spec.Generation || m.Status.CompletedGeneration == 0 {
		return migrate.Proven{}, nil
	}
	name := schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}.String()
	state := new(v1alpha1.StorageState)
	err := s.live.Get(ctx, client.ObjectKey{Name: name}, state)
	switch {
	case apierrors.IsNotFound(err):
		return migrate.Proven{}, nil
	case err != nil:
		return migrate.Proven{}, fmt.Errorf("read StorageState %s: %w", name, err)
	}
	return worker.Proven(&state.Status), nil
}

func (s store) deleteCheckpoint(ctx context.Context, name string) error {
	checkpoint := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := s.client.Delete(ctx, checkpoint); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete checkpoint %s: %w", name, err)
	}
	return nil
}
