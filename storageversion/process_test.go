// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// shortLease is short, so that tests see it expire. No outcome depends on how fast the machine is.
const shortLease = 3 * time.Second

// process is a publisher whose connection to the API server can be cut at any request: for the cluster that is a
// process that was killed.
type process struct {
	*Publisher
	t    *testing.T
	stop context.CancelFunc
	ran  chan error

	mu     sync.Mutex
	dead   bool
	writes int // that were answered
	// allowed is how many writes are let through; the answer to the last is lost if lossy. Negative: all.
	allowed int
	host    string // that it runs on; empty: that of the test
	lossy   bool
	// answered is called with each successful write before the publisher sees the answer.
	answered func(*http.Request)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errCut = errors.New("the connection was cut")

// start runs a publisher; change may edit its options and how its connection behaves.
func start(t *testing.T, c *testbed.Cluster, change func(*Options, *process)) *process {
	t.Helper()
	p := &process{t: t, ran: make(chan error, 1), allowed: -1}
	o := Options{
		Config: rest.CopyConfig(c.Config()), Component: "demo", LeaseDuration: shortLease, DrainTimeout: time.Minute,
		Resources: []Resource{{GroupResource: widgets, EncodingVersion: v1,
			DecodableVersions: []schema.GroupVersion{v1, v2}, ServedVersions: []schema.GroupVersion{v1}}},
	}
	change(&o, p)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return p.roundTrip(next, r) })
	})
	var err error
	if p.Publisher, err = NewPublisher(o); err != nil {
		t.Fatal(err)
	}
	if p.host != "" {
		p.leases.template.Labels[identity.HostLabel] = p.host
	}
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	go func() { p.ran <- p.Run(ctx) }()
	t.Cleanup(p.kill)
	return p
}

func (p *process) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	writes := r.Method != http.MethodGet
	if p.dead || writes && p.allowed == 0 {
		p.dead = true
		p.mu.Unlock()
		return nil, errCut
	}
	if writes && p.allowed > 0 {
		p.allowed--
	}
	last := writes && p.allowed == 0
	p.mu.Unlock()

	answer, err := next.RoundTrip(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && writes && answer.StatusCode < http.StatusBadRequest {
		p.writes++
		if p.answered != nil {
			p.answered(r)
		}
	}
	if p.dead = p.dead || last && p.lossy; p.dead && err == nil {
		answer.Body.Close()
		return nil, errCut
	}
	return answer, err
}

// kill cuts the connection, and then ends the goroutines.
func (p *process) kill() {
	p.crash()
	p.stop()
	p.ran <- <-p.ran // a process that was ended before has reported
}

func (p *process) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (p *process) died() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// end ends the publisher as a shutdown does.
func (p *process) end() error {
	p.stop()
	err := <-p.ran
	p.ran <- nil
	return err
}

func (p *process) ready() bool { return p.Check(nil) == nil }

// Eventually polls; the limit only ends a test that fails.
func Eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-limit:
			t.Fatalf("%s: still not so after a minute", what)
		case <-tick.C:
		}
	}
}

// published reads the status of a resource's object.
func published(t *testing.T, c *testbed.Cluster, api API, r schema.GroupResource) *object {
	t.Helper()
	code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet, api.path()+"/"+ObjectName(r), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &object{}
	if code == http.StatusNotFound {
		return o
	}
	if err := json.Unmarshal(raw, o); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, raw)
	}
	return o
}

func leaseExists(t *testing.T, c *testbed.Cluster, id string) bool {
	t.Helper()
	code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+id, nil)
	if err != nil || code != http.StatusOK && code != http.StatusNotFound {
		t.Fatalf("%d %v: %s", code, err, raw)
	}
	return code == http.StatusOK
}

// checkTrue compares an object's summary with its entries.
func checkTrue(t *testing.T, o *object) {
	t.Helper()
	common, condition := o.Status.common(), reasonUnset
	if common != nil {
		condition = reasonSet
	}
	if diff := cmp.Diff(common, o.Status.CommonEncodingVersion); diff != "" {
		t.Errorf("the common version (-want +got):\n%s", diff)
	}
	if len(o.Status.Conditions) > 1 || len(o.Status.StorageVersions) > 0 &&
		(len(o.Status.Conditions) == 0 || o.Status.Conditions[0].Reason != condition ||
			o.Status.Conditions[0].LastTransitionTime.IsZero()) {
		t.Errorf("the conditions are %+v, want the reason %s", o.Status.Conditions, condition)
	}
}
