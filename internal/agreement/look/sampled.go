// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"fmt"
	"sync"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/waitgroup"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// firstSamples is the number of connections at the first look at a resource. If half of the servers behind a fair
	// load balancer write another version, all answers are equal by chance with a probability of 6 %. If only one of
	// several does, it takes more of them: samplesPerLease for each server that is known to live. Later looks, about one
	// per second, add to this, so laterSamples are enough for each.
	firstSamples    = 5
	samplesPerLease = 4
	laterSamples    = 2
)

// sampled asks the address in the kubeconfig, over new connections each time. Any server may answer.
type sampled struct {
	client *client

	mu     sync.Mutex
	looked map[string]bool // by path
}

func newSampled(c *client) *sampled {
	return &sampled{client: c, looked: map[string]bool{}}
}

func (s *sampled) ask(ctx context.Context, q query) (snapshot.Survey, error) {
	n := q.samples
	if n == 0 {
		n = max(firstSamples, samplesPerLease*len(q.leases.Live))
		s.mu.Lock()
		if s.looked[q.path] {
			n = laterSamples
		}
		s.mu.Unlock()
	}
	n = min(n, maxServers)
	readings := make([]snapshot.Answer, n)
	errs := make([]error, n)
	var wg waitgroup.Group
	for i := range n {
		wg.Go(func() {
			readings[i] = snapshot.Answer{Server: "a server behind " + s.client.base.Host, Anonymous: true}
			readings[i].Document, errs[i] = parseDocument(s.client.getFresh(ctx, q.path))
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return snapshot.Survey{}, fmt.Errorf("ask a server behind %s: %w", s.client.base.Host, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[q.path] = true
	return snapshot.Survey{Answers: readings, Evidence: migrate.Sampled,
		How: fmt.Sprintf("%d new connections to %s", n, s.client.base.Host)}, nil
}
