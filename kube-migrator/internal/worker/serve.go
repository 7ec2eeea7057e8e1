// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// ServeOptions say where a worker finds its runs.
type ServeOptions struct {
	// Options are those of every run. Migration, UID, Generation, Attempt and ConfigMap are ignored, because the roster
	// provides them.
	Options
	// Roster is the name of the ConfigMap, in Namespace, into which the controller writes tasks.
	Roster string
	// Idle is how long to wait for the next task. 0 means 30 seconds.
	Idle time.Duration
}

// DefaultIdle is how long a worker waits for its next run.
const DefaultIdle = 30 * time.Second

// server carries out one task after the other.
type server struct {
	ServeOptions
	waits   timing
	desk    configMap
	process string // identifies this process among all that may use the roster
	log     *slog.Logger
}

// Serve carries out the runs of a roster, one after the other. It returns nil after it has closed the roster because no
// further run was assigned. Each run is carried out by Run, with clients and looks of its own: no run relies on what
// another one has seen. Otherwise the error is ErrOutdated if another process has taken over the roster or it is
// deleted, ErrStopped, that of the context, or says why a run could not begin or its outcome could not be written. The
// task remains, and another worker continues it.
func Serve(ctx context.Context, o ServeOptions) error { return serveWith(ctx, o, defaultTiming) }

func serveWith(ctx context.Context, o ServeOptions, t timing) error {
	s := &server{ServeOptions: o, waits: t, process: rand.Text(), log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.Idle <= 0 {
		s.Idle = DefaultIdle
	}
	client, err := apiserver.NewClient(migrate.WithSharedBackoff(o.Config))
	if err != nil {
		return err
	}
	s.desk = configMap{client: client, namespace: o.Namespace, name: o.Roster}
	r, err := s.open(ctx)
	for err == nil {
		switch {
		case r.Closed:
			s.log.Info("The worker ends: it has no further task")
			return nil
		case r.Idle():
			r, err = s.next(ctx)
			continue
		}
		if err = s.carryOut(ctx, r.Task); err == nil {
			r, err = s.done(ctx, r.Task.Number)
		}
	}
	return err
}

// open waits until the roster exists, and takes it over from an earlier process.
func (s *server) open(ctx context.Context) (Roster, error) {
	return s.update(ctx, s.waits.appear, true, func(r *Roster) bool {
		changed := r.Process != s.process
		r.Process = s.process
		return changed
	})
}

// carryOut carries out one run. A run that is no longer requested, or was taken over, is done: this process writes
// nothing more for it. That holds only as long as the roster belongs to this process; a process that takes over a run
// takes over the roster first.
func (s *server) carryOut(ctx context.Context, t Task) error {
	o := s.Options
	o.Migration, o.UID, o.Generation, o.Attempt, o.ConfigMap = t.Migration, t.UID, t.Generation, t.Attempt, t.ConfigMap
	err := runWith(ctx, o, s.waits)
	if errors.Is(err, ErrOutdated) {
		return nil
	}
	return err
}

// done records that nothing more is written for a task.
func (s *server) done(ctx context.Context, number int64) (Roster, error) {
	return s.update(ctx, s.waits.patience, false, func(r *Roster) bool {
		changed := r.Done < number
		r.Done = max(r.Done, number)
		return changed
	})
}

// next waits for the next task. It closes the roster if none comes, or if the worker is told to end.
func (s *server) next(ctx context.Context) (Roster, error) {
	until := time.Now().Add(s.Idle)
	for {
		object, err := s.desk.get(ctx)
		if err == nil {
			r, err := s.owned(object)
			if err != nil || r.Closed || !r.Idle() {
				return r, err
			}
		} else if isGone(err, s.Roster) {
			return Roster{}, fmt.Errorf("%w: the roster %s is gone", ErrOutdated, s.Roster)
		}
		stopped := errors.Is(sleep(ctx, s.Stop, s.waits.idle), ErrStopped)
		if ctx.Err() != nil {
			return Roster{}, context.Cause(ctx)
		}
		if stopped || !time.Now().Before(until) {
			return s.close(ctx)
		}
	}
}

// close stops accepting tasks, unless one was assigned in the meantime.
func (s *server) close(ctx context.Context) (Roster, error) {
	return s.update(ctx, s.waits.end, false, func(r *Roster) bool {
		if r.Closed || !r.Idle() {
			return false
		}
		r.Closed = true
		return true
	})
}

// owned reads a roster that this process has taken over.
func (s *server) owned(object *corev1.ConfigMap) (Roster, error) {
	r, err := ReadRoster(object)
	if err == nil && r.Process != s.process {
		err = fmt.Errorf("%w: another process has taken over the roster %s", ErrOutdated, s.Roster)
	}
	return r, err
}

// update changes the state of the worker under the resourceVersion that it has read, and returns the resulting roster.
// It retries failed reads and writes for some time. If the answer to a write was lost, the next read finds the write.
// opening means that the roster may not exist yet, and belongs to another process until it is written.
func (s *server) update(ctx context.Context, patience time.Duration, opening bool, change func(*Roster) (changed bool)) (Roster, error) {
	deadline, backoff := time.Now().Add(patience), s.waits.idle
	for {
		r, err := s.try(ctx, opening, change)
		gone := isGone(err, s.Roster) && !opening
		switch {
		case err == nil, errors.Is(err, ErrOutdated), ctx.Err() != nil:
			return r, err
		case gone:
			return r, fmt.Errorf("%w: the roster %s is gone", ErrOutdated, s.Roster)
		case time.Now().After(deadline):
			return r, fmt.Errorf("write roster: %w", err)
		}
		if !apierrors.IsConflict(err) {
			backoff = min(2*backoff, s.waits.most)
		}
		if opening { // it may appear at any moment
			backoff = s.waits.look
		}
		wait := pace.Sleep // a worker that is told to end still writes what it has to write
		if opening {
			wait = func(ctx context.Context, d time.Duration) error { return sleep(ctx, s.Stop, d) }
		}
		if err := wait(ctx, backoff); err != nil {
			return r, err
		}
	}
}

func (s *server) try(ctx context.Context, opening bool, change func(*Roster) bool) (Roster, error) {
	object, err := s.desk.get(ctx)
	if err != nil {
		return Roster{}, err
	}
	read := s.owned
	if opening {
		read = ReadRoster
	}
	r, err := read(object)
	if err != nil || !change(&r) {
		return r, err
	}
	if err := put(object, workerKey, r.workerState); err != nil {
		return r, err
	}
	return r, s.desk.send(ctx, object)
}
