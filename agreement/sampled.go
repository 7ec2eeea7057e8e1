// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	// firstSamples connections are made at the first look at a resource: all agree by chance with a probability of
	// 6 % where half of the servers behind a fair load balancer write another version. Later looks, about one a second,
	// add up: laterSamples are enough for each.
	firstSamples = 5
	laterSamples = 2
)

// sampled asks whoever answers at the address in the kubeconfig, on new connections each time.
type sampled struct {
	client *client

	mu     sync.Mutex
	looked map[schema.GroupVersionResource]bool
}

func newSampled(c *client) *sampled {
	return &sampled{client: c, looked: map[schema.GroupVersionResource]bool{}}
}

func (s *sampled) ask(ctx context.Context, q question) (report, error) {
	n := firstSamples
	s.mu.Lock()
	if s.looked[q.target.Resource] {
		n = laterSamples
	}
	s.mu.Unlock()
	answers := make([]answer, n)
	errs := make([]error, n)
	path := discoveryPath(q.target.Resource.GroupVersion())
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			body, err := s.client.getFresh(ctx, path)
			answers[i], errs[i] = parseAnswer("a server behind "+s.client.base.Host, q.target.Resource.Resource, body, err)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return report{}, fmt.Errorf("ask a server behind %s: %w", s.client.base.Host, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[q.target.Resource] = true
	return report{answers: answers, evidence: migrate.Sampled, how: fmt.Sprintf("%d new connections to %s", n, s.client.base.Host)}, nil
}
