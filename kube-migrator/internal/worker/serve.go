// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// ServeOptions say where a worker finds its runs.
type ServeOptions struct {
	// Config is the configuration for the cluster. It is not changed.
	Config *rest.Config
	// Namespace is that of the ConfigMaps of the roster and of the runs.
	Namespace string
	Settings  Settings
	// Roster is the name of the ConfigMap into which the controller writes tasks.
	Roster string
	// Idle is how long to wait for the next task. 0 means 30 seconds.
	Idle time.Duration
	// Stop, when closed, ends all runs gently, as that of Options does. A nil Stop never ends them.
	Stop <-chan struct{}
	// Logger receives the start, the phases and the end of each run; nil discards them.
	Logger *slog.Logger
}

// DefaultAtOnce is how many resources are swept at the same time unless something else is asked for. Most of them are
// small, and their sweeps mostly wait: for answers, and for API servers whose Lease may show late.
const DefaultAtOnce = 16

// DefaultIdle is how long a worker waits for its next run.
const DefaultIdle = 30 * time.Second

// server carries out the tasks of a roster, all at the same time.
type server struct {
	ServeOptions
	waits   timing
	shared  *Process
	desk    configMap
	process string // identifies this process among all that may use the roster
	log     *slog.Logger

	// Only the goroutine of serve uses these.
	working map[int64]*tasked // by number of the task
	moved   time.Time         // when a task began or ended last
	company sync.WaitGroup
	ended   chan *tasked
}

// tasked is a task on which this process works.
type tasked struct {
	Task
	stop chan struct{}
	once sync.Once
	// asked means that the roster asks for the end.
	asked bool
	// err is why the run ended without an outcome, or nil. It is set before the task is sent to ended.
	err error
}

func (t *tasked) end() { t.once.Do(func() { close(t.stop) }) }

// Serve carries out the runs of a roster, all at the same time. It returns nil after it has closed the roster because no
// further run was assigned. The runs share a Process, so those at one pace keep its bounds together. Otherwise the error
// is ErrOutdated if another process has taken over the roster or it is deleted, ErrStopped, that of the context, or says
// why the roster could not be read or written. The tasks remain, and another worker continues them.
func Serve(ctx context.Context, o ServeOptions) error { return serveWith(ctx, o, defaultTiming) }

func serveWith(ctx context.Context, o ServeOptions, t timing) error {
	s := &server{ServeOptions: o, waits: t, process: rand.Text(), log: o.Logger,
		working: map[int64]*tasked{}, ended: make(chan *tasked)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.Idle <= 0 {
		s.Idle = DefaultIdle
	}
	var err error
	if s.shared, err = NewProcess(o.Config, o.Namespace, o.Settings); err != nil {
		return err
	}
	s.desk = configMap{client: s.shared.client, namespace: o.Namespace, name: o.Roster}
	ctx, cancel := context.WithCancel(ctx)
	defer s.company.Wait()
	defer cancel()
	return s.serve(ctx)
}

// serve follows the roster until it is closed.
func (s *server) serve(ctx context.Context) error {
	r, err := s.open(ctx)
	s.moved = time.Now()
	for err == nil {
		stopping := false
		select {
		case <-s.Stop:
			stopping = true
		default:
			s.follow(ctx, r)
		}
		idle := len(s.working) == 0
		switch {
		case r.Closed:
			s.log.Info("The worker ends: it has no further task")
			return nil
		case idle && stopping && len(r.Open()) > 0:
			return ErrStopped
		case idle && (stopping || time.Since(s.moved) > s.Idle):
			r, err = s.close(ctx)
		default:
			r, err = s.await(ctx, r, stopping)
		}
	}
	return err
}

// follow begins the tasks that are new, and ends those that are to end.
func (s *server) follow(ctx context.Context, r Roster) {
	open := r.Open()
	for number, t := range s.working {
		if i := slices.IndexFunc(open, func(o Task) bool { return o.Number == number }); i < 0 || !open[i].Stop.IsZero() {
			t.asked = true
			t.end()
		}
	}
	for _, task := range open {
		if s.working[task.Number] != nil {
			continue
		}
		t := &tasked{Task: task, stop: make(chan struct{}), asked: !task.Stop.IsZero()}
		if t.asked {
			t.end()
		}
		s.working[task.Number], s.moved = t, time.Now()
		s.company.Go(func() {
			ended := make(chan struct{})
			s.company.Go(func() { // also while the roster cannot be written
				select {
				case <-s.Stop:
					t.end()
				case <-ended:
				}
			})
			t.err = s.carryOut(ctx, t)
			close(ended)
			select {
			case s.ended <- t:
			case <-ctx.Done():
			}
		})
	}
}

// carryOut carries out one run. A run that is no longer requested, or was taken over, is done: this process writes
// nothing more for it. That holds only as long as the roster belongs to this process; a process that takes over a run
// takes over the roster first. The error is ErrStopped or that of the context.
func (s *server) carryOut(ctx context.Context, t *tasked) error {
	for {
		select {
		case <-t.stop:
			return ErrStopped
		default:
		}
		err := runWith(ctx, Options{Process: s.shared, Migration: t.Migration, UID: t.UID, Generation: t.Generation,
			Attempt: t.Attempt, ConfigMap: t.ConfigMap, Stop: t.stop, Logger: s.Logger}, s.waits)
		switch {
		case err == nil, errors.Is(err, ErrOutdated):
			return nil
		case errors.Is(err, ErrStopped), ctx.Err() != nil:
			return err
		}
		s.log.Error("A run ended without a result; starting it again", "migration", t.Migration, "error", err)
		if err := sleep(ctx, t.stop, s.waits.again); err != nil {
			return err
		}
	}
}

// await waits until a task has ended, or for the next look at the roster, and returns the roster after that.
func (s *server) await(ctx context.Context, r Roster, stopping bool) (Roster, error) {
	// Tasks come and go together.
	wait, stop := s.waits.look, s.Stop
	if len(s.working) == 0 || time.Since(s.moved) < 4*s.waits.look {
		wait = s.waits.idle
	}
	if stopping {
		stop = nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case t := <-s.ended:
		return s.left(ctx, t, r)
	case <-timer.C:
		if stopping {
			return r, nil
		}
		return s.read(ctx, r)
	case <-stop:
		return r, nil
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
}

// left records that nothing more is written for a task, and for those that have ended meanwhile. If the process is told
// to end, the tasks remain: another process continues them.
func (s *server) left(ctx context.Context, t *tasked, r Roster) (Roster, error) {
	var over []int64
	for {
		delete(s.working, t.Number)
		s.moved = time.Now()
		if t.err == nil || t.asked {
			over = append(over, t.Number)
		}
		select {
		case t = <-s.ended:
			continue
		default:
		}
		if len(over) == 0 {
			return r, nil
		}
		return s.done(ctx, over...)
	}
}

// open waits until the roster exists, and takes it over from an earlier process.
func (s *server) open(ctx context.Context) (Roster, error) {
	return s.update(ctx, s.waits.appear, true, func(r *Roster) bool {
		changed := r.Process != s.process
		r.Process = s.process
		return changed
	})
}

// done records that nothing more is written for tasks.
func (s *server) done(ctx context.Context, numbers ...int64) (Roster, error) {
	return s.update(ctx, s.waits.patience, false, func(r *Roster) bool {
		var ended []int64
		for _, t := range r.Tasks {
			if slices.Contains(r.Ended, t.Number) || slices.Contains(numbers, t.Number) {
				ended = append(ended, t.Number)
			}
		}
		changed := !slices.Equal(ended, r.Ended)
		r.Ended = ended
		return changed
	})
}

// read reads the roster again. If that fails, the tasks continue.
func (s *server) read(ctx context.Context, before Roster) (Roster, error) {
	object, err := s.desk.get(ctx)
	switch {
	case err == nil:
		return s.owned(object)
	case isGone(err, s.Roster):
		return before, s.gone()
	}
	return before, nil
}

func (s *server) gone() error { return fmt.Errorf("%w: the roster %s is gone", ErrOutdated, s.Roster) }

// close stops accepting tasks, unless one was assigned in the meantime.
func (s *server) close(ctx context.Context) (Roster, error) {
	return s.update(ctx, s.waits.end, false, func(r *Roster) bool {
		if r.Closed || len(r.Open()) > 0 {
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
			return r, s.gone()
		case time.Now().After(deadline):
			return r, fmt.Errorf("write roster: %w", err)
		}
		wait := backoff
		switch {
		case apierrors.IsConflict(err): // the controller has written it
			wait = 0
		case opening: // it may appear at any moment
			wait = s.waits.look
		default:
			backoff = min(2*backoff, s.waits.most)
		}
		stop := s.Stop
		if !opening { // a worker that is told to end still writes what it has to write
			stop = nil
		}
		if err := sleep(ctx, stop, wait); err != nil {
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
