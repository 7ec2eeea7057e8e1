// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	// samplePeriod is how often a measurement looks. A look costs one read of a key that does not exist and a few reads
	// of /proc.
	samplePeriod = 20 * time.Millisecond
	// unresponsive is after what time a look goes on without etcd's answer.
	unresponsive = time.Second
)

// Sample is one look at everything that is measured.
type Sample struct {
	At time.Time
	// Revision is etcd's, at or shortly before At; the last one known where etcd does not answer.
	Revision int64
	// APIServer, Etcd and Client are the CPU used since each process started: of all API servers, and of all processes
	// of the client.
	APIServer, Etcd, Client time.Duration
	// ClientPeakRSSBytes is the client's largest resident set so far, the sum over its processes.
	ClientPeakRSSBytes int64
	// Sent and Received are the bytes that the client sent and received so far, where they are counted.
	Sent, Received int64
}

// Span is what happened between the first and the last of the writes that a measurement is about.
type Span struct {
	Begin, End              time.Time
	APIServer, Etcd, Client time.Duration
	Sent, Received          int64
}

// spanOf finds the span between two revisions: from the last sample before the first write to the first sample that has
// seen the last one. Both ends are up to one sample period too wide, for every contestant alike.
func spanOf(samples []Sample, first, last int64) (Span, error) {
	begin, end := -1, -1
	for i, s := range samples {
		if s.Revision < first {
			begin = i
		}
		if s.Revision >= last {
			end = i
			break
		}
	}
	if begin < 0 || end < 0 {
		return Span{}, fmt.Errorf("the %d samples do not reach from revision %d to %d", len(samples), first, last)
	}
	return between(samples[begin], samples[end]), nil
}

func between(a, b Sample) Span {
	return Span{
		Begin: a.At, End: b.At,
		APIServer: b.APIServer - a.APIServer, Etcd: b.Etcd - a.Etcd, Client: b.Client - a.Client,
		Sent: b.Sent - a.Sent, Received: b.Received - a.Received,
	}
}

// sampler looks until it is stopped.
type sampler struct {
	cluster *testbed.Cluster
	wire    *Wire // nil where nothing is counted

	mu   sync.Mutex
	pids map[int]testbed.Usage // of the client: what each process had used when it was last seen

	quit    chan struct{}
	done    sync.WaitGroup
	samples []Sample
	err     error
}

// sampling starts a sampler; stop ends it.
func sampling(ctx context.Context, cluster *testbed.Cluster, wire *Wire) *sampler {
	s := &sampler{cluster: cluster, wire: wire, pids: map[int]testbed.Usage{}, quit: make(chan struct{})}
	s.done.Go(func() { s.err = s.run(ctx) })
	return s
}

// watch adds a process of the client.
func (s *sampler) watch(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pids[pid] = testbed.Usage{}
}

// stop ends the sampler after one more look, and returns what it saw.
func (s *sampler) stop(ctx context.Context) ([]Sample, error) {
	close(s.quit)
	s.done.Wait()
	if s.err != nil {
		return nil, s.err
	}
	err := s.look(ctx)
	return s.samples, err
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
	var now Sample
	if n := len(s.samples); n > 0 {
		now.Revision = s.samples[n-1].Revision
	}
	asking, cancel := context.WithTimeout(ctx, unresponsive)
	response, err := s.cluster.Etcd.Client().Get(asking, "/bench/no-such-key")
	cancel()
	if err == nil {
		now.Revision = response.Header.Revision
	} else if len(s.samples) == 0 || ctx.Err() != nil {
		return fmt.Errorf("read etcd revision: %w", err)
	}
	now.At = time.Now()
	for _, server := range s.cluster.Servers {
		usage, err := server.Usage()
		if err != nil {
			return fmt.Errorf("measure API server: %w", err)
		}
		now.APIServer += usage.CPU
	}
	etcd, err := s.cluster.Etcd.Usage()
	if err != nil {
		return fmt.Errorf("measure etcd: %w", err)
	}
	now.Etcd = etcd.CPU
	now.Client, now.ClientPeakRSSBytes = s.client()
	if s.wire != nil {
		now.Sent, now.Received = s.wire.sent.Load(), s.wire.received.Load()
	}
	s.samples = append(s.samples, now)
	return nil
}

// client sums up what the processes of the client have used; one that has ended counts with what it had used last.
func (s *sampler) client() (cpu time.Duration, peakRSSBytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range slices.Collect(maps.Keys(s.pids)) {
		last := s.pids[pid]
		if now, err := testbed.UsageOf(pid); err == nil && now.CPU >= last.CPU {
			now.PeakRSSBytes = max(now.PeakRSSBytes, last.PeakRSSBytes)
			last = now
			s.pids[pid] = now
		}
		cpu += last.CPU
		peakRSSBytes += last.PeakRSSBytes
	}
	return cpu, peakRSSBytes
}
