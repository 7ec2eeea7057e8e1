// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package storageversion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// shortLease is short, so that tests see it expire. No outcome depends on how fast the machine is.
const shortLease = 3 * time.Second

var (
	widgets = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	gadgets = schema.GroupResource{Group: "demo.example.com", Resource: "gadgets"}
	v1      = schema.GroupVersion{Group: "demo.example.com", Version: "v1"}
	v2      = schema.GroupVersion{Group: "demo.example.com", Version: "v2"}
)

// process is a publisher whose connection to the API server can be cut at any request: for the cluster that is a
// process that was killed.
type process struct {
	*storageversion.Publisher
	t    *testing.T
	stop context.CancelFunc
	ran  chan error

	mu     sync.Mutex
	dead   bool
	writes int // that were answered
	// allowed is how many writes are let through; the answer to the last is lost if lossy. Negative: all.
	allowed int
	host    string // that its Lease names; empty: that of the test
	lossy   bool
	// answered is called with each successful write before the publisher sees the answer.
	answered func(*http.Request)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var errCut = errors.New("the connection was cut")

// start runs a publisher; change may edit its options and how its connection behaves.
func start(t *testing.T, c *testbed.Cluster, change func(*storageversion.Options, *process)) *process {
	t.Helper()
	p := &process{t: t, ran: make(chan error, 1), allowed: -1}
	o := storageversion.Options{
		Config: rest.CopyConfig(c.Config()), Component: "demo", LeaseDuration: shortLease, DrainTimeout: time.Minute,
		Resources: []storageversion.Resource{{GroupResource: widgets, EncodingVersion: v1,
			DecodableVersions: []schema.GroupVersion{v1, v2}, ServedVersions: []schema.GroupVersion{v1}}},
	}
	change(&o, p)
	o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return p.roundTrip(next, r) })
	})
	var err error
	if p.Publisher, err = storageversion.NewPublisher(o); err != nil {
		t.Fatal(err)
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

	if p.host != "" {
		if err := onHost(r, p.host); err != nil {
			return nil, err
		}
	}
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

// onHost makes a request that writes a Lease name another host.
func onHost(r *http.Request, host string) error {
	if r.Body == nil {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	own, err := os.Hostname()
	if err != nil {
		return err
	}
	label := func(host string) []byte { return fmt.Appendf(nil, "%q:%q", identity.HostLabel, host) }
	raw = bytes.ReplaceAll(raw, label(own), label(host))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	return nil
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

// eventually polls; the limit only ends a test that fails.
func eventually(t *testing.T, what string, done func() bool) {
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

// object is a StorageVersion of either API.
type object struct{ v1alpha1.StorageVersion }

// find returns the entry of a server, or nil.
func (o *object) find(id string) *v1alpha1.ServerStorageVersion {
	i := slices.IndexFunc(o.Status.StorageVersions,
		func(e v1alpha1.ServerStorageVersion) bool { return e.APIServerID == id })
	if i < 0 {
		return nil
	}
	return &o.Status.StorageVersions[i]
}

// common returns the version in which all entries encode, or nil.
func (o *object) common() *string {
	var common *string
	for i := range o.Status.StorageVersions {
		version := &o.Status.StorageVersions[i].EncodingVersion
		if common != nil && *common != *version {
			return nil
		}
		common = version
	}
	return common
}

func pathOf(api storageversion.API, r schema.GroupResource) string {
	return "/apis/" + string(api) + "/v1alpha1/storageversions/" + storageversion.ObjectName(r)
}

// published reads the status of a resource's object.
func published(t *testing.T, c *testbed.Cluster, api storageversion.API, r schema.GroupResource) *object {
	t.Helper()
	code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet, pathOf(api, r), nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &object{}
	if code == http.StatusNotFound {
		return o
	}
	if err := json.Unmarshal(raw, &o.StorageVersion); err != nil || code != http.StatusOK {
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
	common, reason := o.common(), "CommonEncodingVersionUnset"
	if common != nil {
		reason = "CommonEncodingVersionSet"
	}
	if diff := compare.Diff(common, o.Status.CommonEncodingVersion); diff != "" {
		t.Errorf("the common version (-want +got):\n%s", diff)
	}
	if len(o.Status.Conditions) > 1 || len(o.Status.StorageVersions) > 0 &&
		(len(o.Status.Conditions) == 0 || o.Status.Conditions[0].Reason != reason ||
			o.Status.Conditions[0].LastTransitionTime.IsZero()) {
		t.Errorf("the conditions are %+v, want the reason %s", o.Status.Conditions, reason)
	}
}
