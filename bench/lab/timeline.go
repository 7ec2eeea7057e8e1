// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// samplePeriod is how often a measurement looks. A look costs one read of a key that does not exist and three reads of
// /proc.
const samplePeriod = 20 * time.Millisecond

// sample is one look at everything that is measured.
type sample struct {
	at time.Time
	// revision is etcd's, at or shortly before at.
	revision int64
	// CPU used since each process started.
	apiserver, etcd, client time.Duration
	// clientPeakRSSBytes is the client's largest resident set so far.
	clientPeakRSSBytes int64
	// Bytes that the client sent and received so far, where a counting proxy stands in between.
	sent, received int64
}

// span is what happened between the first and the last of the writes that a measurement is about.
type span struct {
	duration                time.Duration
	apiserver, etcd, client time.Duration
	sent, received          int64
}

// spanOf finds the span between two revisions: from the last sample before the first write to the first sample that has
// seen the last one. Both ends are up to one sample period too wide, for every contestant alike.
func spanOf(samples []sample, first, last int64) (span, error) {
	begin, end := -1, -1
	for i, s := range samples {
		if s.revision < first {
			begin = i
		}
		if s.revision >= last {
			end = i
			break
		}
	}
	if begin < 0 || end < 0 {
		return span{}, fmt.Errorf("the %d samples do not reach from revision %d to %d", len(samples), first, last)
	}
	a, b := samples[begin], samples[end]
	return span{
		duration:  b.at.Sub(a.at),
		apiserver: b.apiserver - a.apiserver, etcd: b.etcd - a.etcd, client: b.client - a.client,
		sent: b.sent - a.sent, received: b.received - a.received,
	}, nil
}

// sampler looks until it is stopped.
type sampler struct {
	cluster *testbed.Cluster
	wire    *counter // nil where nothing is counted
	pid     atomic.Int64

	quit    chan struct{}
	done    sync.WaitGroup
	samples []sample
	err     error
}

// sampling starts a sampler; stop ends it.
func sampling(ctx context.Context, cluster *testbed.Cluster, wire *counter) *sampler {
	s := &sampler{cluster: cluster, wire: wire, quit: make(chan struct{})}
	s.done.Go(func() { s.err = s.run(ctx) })
	return s
}

// watch says which process is the client.
func (s *sampler) watch(pid int) { s.pid.Store(int64(pid)) }

// stop ends the sampler after one more look, and returns what it saw.
func (s *sampler) stop(ctx context.Context) ([]sample, error) {
	close(s.quit)
	s.done.Wait()
	if s.err != nil {
		return nil, s.err
	}
	return s.samples, s.look(ctx)
}

func (s *sampler) run(ctx context.Context) error {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		if err := s.look(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.quit:
			return nil
		case <-ticker.C:
		}
	}
}

func (s *sampler) look(ctx context.Context) error {
	response, err := s.cluster.Etcd.Client().Get(ctx, "/bench/no-such-key")
	if err != nil {
		return fmt.Errorf("read etcd revision: %w", err)
	}
	now := sample{at: time.Now(), revision: response.Header.Revision}
	apiserver, err := s.cluster.Servers[0].Usage()
	if err != nil {
		return fmt.Errorf("measure API server: %w", err)
	}
	etcd, err := s.cluster.Etcd.Usage()
	if err != nil {
		return fmt.Errorf("measure etcd: %w", err)
	}
	now.apiserver, now.etcd = apiserver.CPU, etcd.CPU
	if n := len(s.samples); n > 0 { // what a client that has ended used in all
		now.client, now.clientPeakRSSBytes = s.samples[n-1].client, s.samples[n-1].clientPeakRSSBytes
	}
	if pid := s.pid.Load(); pid != 0 {
		if client, err := testbed.UsageOf(int(pid)); err == nil {
			now.client = client.CPU
			now.clientPeakRSSBytes = max(now.clientPeakRSSBytes, client.PeakRSSBytes)
		}
	}
	if s.wire != nil {
		now.sent, now.received = s.wire.sent.Load(), s.wire.received.Load()
	}
	s.samples = append(s.samples, now)
	return nil
}
