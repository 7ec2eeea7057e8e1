// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// ErrNotMoved says that the managedFields or the ownerReferences of some objects still name the version.
var ErrNotMoved = errors.New("references to the version could not be moved")

// namedFailures bounds how many objects an error names.
const namedFailures = 5

// change returns the fields of an object's metadata that a write has to change, or none if there is nothing to do. It is
// called with the metadata that was read or written last until it returns none; each object has a change of its own,
// which may remember what it saw before.
type change func(live *metav1.ObjectMeta) (fields map[string]any, err error)

// mover changes the metadata of all objects of a resource.
type mover struct {
	objects collection
	change  func() change
	pacer   *pace.Pacer
	// inFlight bounds how many objects of a page are handled at once; the pacer limits how many of them write.
	inFlight int
	stopped  func() error

	mu       sync.Mutex
	moved    int64
	failed   int64
	failures []error
}

// run handles every object once, and returns how many it has changed. It does not stop at a failure, but returns all of
// them at the end.
func (m *mover) run(ctx context.Context) (int64, error) {
	err := m.objects.each(ctx, func(items []metav1.PartialObjectMetadata) (err error) {
		if err := m.stopped(); err != nil {
			return err
		}
		if m.objects.resource, err = m.objects.keeps.look(ctx); err != nil {
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

// object changes one object. It returns only the error of the context; other errors are collected.
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
	change := m.change()
	if fields, err := change(meta); err != nil || len(fields) == 0 {
		return false, err
	}
	fresh, final := false, error(nil)
	for range attempts {
		err = patiently(ctx, func() error {
			wrote, err := m.try(ctx, change, meta, fresh)
			moved = moved || wrote
			fresh = true
			if errors.Is(err, errReset) || errors.As(err, new(*pruning.LossError)) {
				final = err // it is of no use to repeat
				return nil
			}
			return err
		})
		if final != nil {
			return false, final
		}
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

// errReset says that the API server accepts the writes and does not keep them.
var errReset = errors.New("the API server accepts each write, and the object has the old value again: an admission " +
	"webhook may set it")

// try sends the writes that an object needs. If fresh is set, it reads the object first. It reads only once the pacer
// lets it send the write: otherwise another client would probably have changed the object in between.
func (m *mover) try(ctx context.Context, change change, meta *metav1.ObjectMeta,
	fresh bool) (wrote bool, err error) {
	const writes = 3 // more than any change needs
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
	for range writes {
		fields, err := change(meta)
		if err != nil || len(fields) == 0 {
			return wrote, err
		}
		if meta, err = m.objects.patch(ctx, meta, fields); err != nil {
			kind = kindOf(err)
			if apierrors.IsNotFound(err) && fresh {
				err = fmt.Errorf("%w: %w", errUnwritable, err)
			}
			return wrote, err
		}
		kind, wrote = pace.Wrote, true
	}
	if fields, err := change(meta); err != nil || len(fields) == 0 {
		return wrote, err
	}
	return wrote, errReset
}

// kindOf tells the pacer about a write that failed.
func kindOf(err error) pace.Kind {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		return pace.Throttled
	case !errors.As(err, &status):
		return pace.Lost
	}
	return pace.Other
}

// key names an object for users.
func key(m *metav1.ObjectMeta) string { return printable.Name(m.Namespace, m.Name) }
