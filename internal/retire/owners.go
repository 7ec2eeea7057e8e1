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

	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// ErrNotMoved says that the managedFields of some objects still name the version.
var ErrNotMoved = errors.New("managedFields could not be moved")

// namedFailures bounds how many objects an error names.
const namedFailures = 5

// mover moves the managedFields entries of all objects from one version to another.
type mover struct {
	objects Objects
	from    string // apiVersion
	to      string // apiVersion
	pacer   *pace.Pacer
	// inFlight bounds the objects of a page that are worked on at once; the pacer says how many of them may write.
	inFlight int
	stopped  func() error

	mu       sync.Mutex
	moved    int64
	failed   int64
	failures []error
}

// run goes over all objects once, and returns how many were moved. Failures are all seen before they are returned.
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

// object moves the entries of one object. The error is that of the context alone; others are collected.
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

// move writes until it gets ahead of everybody else: the resourceVersion that the new entries were computed from is the
// precondition of the write, so that what someone else writes meanwhile is neither lost nor disowned.
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

// errUnwritable says that an object was there a moment ago, and was not found when it was written. Once, it was deleted
// in between; every time, it can be read and not written.
var errUnwritable = errors.New("it is stored, but cannot be written; its namespace may be gone")

// try sends one write, for the object as it is now if fresh is set. It reads when its turn has come and not before, or
// others would be ahead for sure.
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
			return false, nil // deleted by someone else
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
	return m.objects.Client.Patch(types.MergePatchType).AbsPath(path).
		Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationIgnore).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Body(body).Do(ctx).Error()
}

// key names an object for people.
func key(m *metav1.ObjectMeta) string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}
