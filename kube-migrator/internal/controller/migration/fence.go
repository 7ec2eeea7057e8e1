// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotLeading reports that the Lease was not renewed in time, so another controller may lead by now.
var errNotLeading = errors.New("this controller may no longer be the leader")

// fence keeps a controller from writing that has lost its Lease without noticing: a process that was suspended past the
// end of the Lease continues in the middle of its work, before leader election notices (I8). Every write first checks
// the clock here. One request can escape: a process may be suspended between this check and the system call that sends
// the request. That is harmless: statuses and rosters are written under a resourceVersion, a Job without a roster does
// nothing, and an empty patch changes nothing.
type fence struct {
	resourcelock.Interface

	// valid is how long after the beginning of a renewal the Lease certainly belongs to us: others wait longer.
	valid time.Duration

	mu      sync.Mutex
	renewed time.Time // when the last successful renewal began; zero if we do not lead
}

// Create implements resourcelock.Interface.
func (f *fence) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	err := f.Interface.Create(ctx, record)
	f.note(begun, record, err)
	return err
}

// Update implements resourcelock.Interface.
func (f *fence) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begun := time.Now()
	err := f.Interface.Update(ctx, record)
	f.note(begun, record, err)
	return err
}

func (f *fence) note(begun time.Time, record resourcelock.LeaderElectionRecord, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case record.HolderIdentity != f.Identity():
		f.renewed = time.Time{} // given up
	case err == nil:
		f.renewed = begun
	}
}

// leads reports whether the Lease certainly belongs to us. Both clocks have to agree: the monotonic clock stops while a
// machine sleeps, and the wall clock can be set.
func (f *fence) leads() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return !f.renewed.IsZero() && now.Sub(f.renewed) < f.valid && now.Round(0).Sub(f.renewed.Round(0)) < f.valid
}

// wrap returns a copy of config that refuses to write while another controller may lead.
func (f *fence) wrap(config *rest.Config) *rest.Config {
	fenced := rest.CopyConfig(config)
	fenced.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead && !f.leads() {
				return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, errNotLeading)
			}
			return next.RoundTrip(r)
		})
	})
	return fenced
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
