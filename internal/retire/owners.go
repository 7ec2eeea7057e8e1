// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// ErrNotMoved says that the managedFields of some objects still name the version.
var ErrNotMoved = errors.New("managedFields could not be moved")

// namedFailures bounds how many objects an error names.
const namedFailures = 5

// mover moves the managedFields entries of all objects from one version to another.
type mover struct {
	objects Objects
	from    string // an apiVersion
	to      string // an apiVersion
	pacer   *pace.Pacer
	// inFlight bounds how many objects of a page are handled at once; the pacer limits how many of them write.
	inFlight int
	stopped  func() error

	mu       sync.Mutex
	moved    int64
	failed   int64
	failures []error
}

// run handles every object once, and returns for how many it has moved entries. It does not stop at a failure, but
// returns all of them at the end.
func (m *mover) run(ctx context.Context) (int64, error) {
	err := m.objects.Each(ctx, func(items []metav1.PartialObjectMetadata) error {
		if err := m.stopped(); err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(m.inFlight)
		for i := range items {
			group.Go(func() error { return m.object(ctx, &items[i].ObjectMeta) })
		}
		return group.Wait()
	})
	if err != nil {
		return m.moved, err
	}
	if m.failed > 0 {
		return m.moved, fmt.Errorf("%w: %d objects, such as %w", ErrNotMoved, m.failed, errors.Join(m.failures...))
	}
	return m.moved, nil
}

// object moves the entries of one object. It returns only the error of the context; other errors are collected.
func (m *mover) object(ctx context.Context, meta *metav1.ObjectMeta) error {
	moved, err := m.move(ctx, meta)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		m.failed++
		if len(m.failures) < namedFailures {
			m.failures = append(m.failures, fmt.Errorf("%s: %w", key(meta), err))
		}
	case moved:
		m.moved++
	}
	return nil
}

// move repeats the write after each conflict. The precondition of the write is the resourceVersion from which the new
// entries were computed, so a write by another client in between is not lost and keeps its owner.
func (m *mover) move(ctx context.Context, meta *metav1.ObjectMeta) (moved bool, err error) {
	if _, changed, err := Moved(meta.ManagedFields, m.from, m.to); err != nil || !changed {
		return false, err
	}
	fresh := false
	for range attempts {
		err = patiently(ctx, func() error {
			var err error
			moved, err = m.try(ctx, meta, fresh)
			fresh = true
			return err
		})
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return moved, err
		}
	}
	if errors.Is(err, errUnwritable) {
		return false, err
	}
	return false, fmt.Errorf("others wrote it %d times in a row", attempts)
}

// errUnwritable says that an object could be read a moment ago, and that the write answered 404. If this happens once,
// the object was deleted in between; if it happens every time, the object can be read and not written.
var errUnwritable = errors.New("it is stored, but cannot be written; its namespace may be gone")

// try sends one write. If fresh is set, it reads the object first. It reads only once the pacer lets it send the write:
// otherwise another client would probably have changed the object in between.
func (m *mover) try(ctx context.Context, meta *metav1.ObjectMeta, fresh bool) (moved bool, err error) {
	slot, err := m.pacer.Acquire(ctx)
	if err != nil {
		return false, err
	}
	ctx = slot.Count(ctx)
	kind := pace.Other
	defer func() { m.pacer.Release(slot, kind, 0) }()
	if fresh {
		live, err := m.objects.read(ctx, meta)
		if apierrors.IsNotFound(err) {
			return false, nil // another client has deleted it
		}
		if err != nil {
			return false, err
		}
		meta = live
	}
	entries, changed, err := Moved(meta.ManagedFields, m.from, m.to)
	if err != nil || !changed {
		return false, err
	}
	err = m.patch(ctx, meta, entries)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		kind = pace.Wrote
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		kind = pace.Throttled
	case !errors.As(err, &status):
		kind = pace.Lost
	case apierrors.IsNotFound(err) && fresh:
		return false, fmt.Errorf("%w: %w", errUnwritable, err)
	}
	return err == nil, err
}

func (m *mover) patch(ctx context.Context, meta *metav1.ObjectMeta, entries []metav1.ManagedFieldsEntry) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": meta.UID, "resourceVersion": meta.ResourceVersion, "managedFields": entries,
	}})
	if err != nil {
		return err
	}
	path, err := m.objects.path(meta)
	if err != nil {
		return err
	}
	return apiserver.Send(ctx, m.objects.Client.Patch(types.MergePatchType).AbsPath(path).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationIgnore).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(body), nil)
}

// key names an object for users.
func key(m *metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}
