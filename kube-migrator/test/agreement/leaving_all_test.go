// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package agreement_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// touch writes a DeviceClass through a server, on a connection of its own.
func touch(ctx context.Context, s *testbed.Server, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, _, err := s.Do(ctx, http.MethodPost, "/apis/resource.k8s.io/v1/deviceclasses",
		fmt.Appendf(nil, `{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": %q}, "spec": {}}`, name))
	return err == nil && status == http.StatusCreated
}

// An API server that is told to shut down deletes its Lease at once and accepts writes for as long as its load
// balancers need to notice.
func TestARealServerThatIsToldToEndIsReckonedWithUntilItIsSilent(t *testing.T) {
	t.Parallel()
	const delay = 15 * time.Second
	leaving := []string{"--min-compatibility-version=1.33", "--shutdown-delay-duration=" + delay.String()}
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true,
		Servers: []testbed.ServerOptions{{Flags: leaving}, {}}})
	ctx := t.Context()
	a, b := cluster.Servers[0], cluster.Servers[1]
	o, err := agreement.NewObserver(b.Config(), agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	r := o.For(deviceClasses)
	until(t, r, "a disagreement of two", func(_ migrate.Epoch,
		err error) bool {
		return errors.Is(err, migrate.ErrDisagreement)
	})

	var written atomic.Int64 // when a accepted a write last, in Unix nanoseconds
	writing, stop := context.WithCancel(ctx)
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 0; writing.Err() == nil; n++ {
			if begin := time.Now(); touch(writing, a, fmt.Sprintf("late-%d", n)) {
				written.Store(begin.UnixNano())
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	defer writer.Wait()
	defer stop()

	told := time.Now()
	if err := a.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	unlisted := false // a look was made without a's Lease while a served
	var alone migrate.Epoch
	for deadline := told.Add(2 * time.Minute); len(alone.Servers) != 1 &&
		time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		round, err := o.Round(ctx)
		if err == nil && round.Leaving {
			v := verdictOf(t, round, "resource.k8s.io", "deviceclasses")
			serves := slices.ContainsFunc(v.Servers,
				func(s agreement.Server) bool { return s.Version == "resource.k8s.io/v1beta2" })
			// it ended just before this look
			silent := slices.ContainsFunc(v.Servers, func(s agreement.Server) bool { return !s.Answered })
			unlisted = unlisted || serves
			if len(v.Servers) != 2 || !serves && !silent {
				t.Errorf("%v after it was told to end the servers are %+v", time.Since(told), v.Servers)
			}
		}
		if e, err := r.Epoch(ctx); err == nil {
			alone = e
		}
	}
	stop()
	writer.Wait()
	last := time.Unix(0, written.Load())
	t.Logf("it accepted writes until %v after it was told to end; the other one's epoch began %v after that",
		last.Sub(told), alone.Since.Sub(last))
	if !unlisted || last.Sub(told) < delay/2 {
		t.Errorf("it did not serve without being listed (writes until %v after it was told to end)", last.Sub(told))
	}
	if len(alone.Servers) != 1 || alone.Since.Before(last) {
		t.Errorf("the epoch without it is %+v, and it accepted a write at %v", alone, last)
	}
}

// A suspended process may finish its writes when it resumes, however long after its Lease.
func TestARealServerThatIsSuspendedForLongerThanItsLeaseEndsNoDisagreement(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{
		Release: testbed.V136, Isolated: true, Servers: []testbed.ServerOptions{{},
			{Flags: []string{"--min-compatibility-version=1.33"}}},
	})
	ctx, suspended := t.Context(), cluster.Servers[1]
	o, err := agreement.NewObserver(cluster.Config(), agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	r := o.For(deviceClasses)
	until(t, r, "a disagreement of two", func(_ migrate.Epoch,
		err error) bool {
		return errors.Is(err, migrate.ErrDisagreement)
	})
	holder := holderOf(t, cluster, "api-1")
	if err := suspended.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer suspended.Signal(syscall.SIGCONT) //nolint:errcheck // it may run again already
	makeStale(t, cluster, holder)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Second) {
		e, err := r.Epoch(ctx)
		if err == nil && e.Evidence >= migrate.Observed {
			t.Fatalf("while it is suspended the look says %+v", e)
		}
		if err == nil && !slices.Contains(e.Servers, holder) {
			t.Fatalf("while it is suspended it is not among the servers %v", e.Servers)
		}
	}
	if err := suspended.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until(t, r, "a disagreement of two again",
		func(_ migrate.Epoch, err error) bool { return errors.Is(err, migrate.ErrDisagreement) })
}
