// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package storageversion

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

var (
	widgets = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	gadgets = schema.GroupResource{Group: "demo.example.com", Resource: "gadgets"}
	v1      = schema.GroupVersion{Group: "demo.example.com", Version: "v1"}
	v2      = schema.GroupVersion{Group: "demo.example.com", Version: "v2"}
)

func publisherOf(t *testing.T, resources ...Resource) *Publisher {
	t.Helper()
	p, err := NewPublisher(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"},
		Component: "demo", Resources: resources})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open lets writes of a publisher through, as its loops do once they have published.
func open(p *Publisher, resources ...schema.GroupResource) {
	p.gate.joined(time.Now())
	for _, r := range resources {
		p.gate.confirm(r, time.Now(), p.gate.period())
	}
}

func send(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

const (
	collection = "/apis/demo.example.com/v1/namespaces/a/widgets"
	one        = collection + "/one"
)

func TestBarrierBeforePublication(t *testing.T) {
	for name, test := range map[string]struct {
		method, path string
		passes       exception
	}{
		"a create":                               {http.MethodPost, collection, barred},
		"an update":                              {http.MethodPut, one, barred},
		"a patch":                                {http.MethodPatch, one, barred},
		"a deletion, which can leave finalizers": {http.MethodDelete, one, barred},
		"a deletion of a collection":             {http.MethodDelete, collection, barred},
		"a write of a subresource":               {http.MethodPut, one + "/status", barred},
		"a write through another version": {http.MethodPut,
			"/apis/demo.example.com/v2/namespaces/a/widgets/one", barred},
		"a write of a resource without namespace": {http.MethodPut, "/apis/demo.example.com/v1/gadgets/one", barred},
		"a dry run":       {http.MethodPost, collection + "?dryRun=All", barred},
		"an unknown verb": {"MERGE", one, barred},
		"a path with two slashes": {http.MethodPut,
			"/apis//demo.example.com/v1/namespaces/a//widgets/one", barred},
		"a path with dots": {http.MethodPut,
			"/apis/demo.example.com/v1/x/../namespaces/a/widgets/one", barred},
		"a slash at the end": {http.MethodPost, collection + "/", barred},
		"an escaped letter": {http.MethodPut,
			"/apis/demo.example.com/v1/namespaces/a/%77idgets/one", barred},
		"an escaped slash in the namespace": {http.MethodPut,
			"/apis/demo.example.com/v1/namespaces/a%2Fb/widgets/one", barred},
		"an escaped slash before the resource": {http.MethodPut,
			"/apis/demo.example.com/v1/namespaces/a%2Fwidgets/one", barred},

		"the KEP's first, to the API of Kubernetes": {http.MethodPut,
			"/apis/internal.apiserver.k8s.io/v1alpha1/storageversions/a.b/status", ownPublication},
		"the KEP's first, to ours": {http.MethodPost,
			"/apis/migration.k8s.io/v1alpha1/storageversions", ownPublication},
		"the KEP's second, of an object":    {http.MethodGet, one, reading},
		"the KEP's second, a list or watch": {http.MethodGet, collection + "?watch=true", reading},
		"a HEAD":                            {http.MethodHead, one, reading},
		"a preflight request of CORS":       {http.MethodOptions, one, reading},
		"the KEP's third": {http.MethodPost,
			"/apis/demo.example.com/v1/widgetreviews", notPersisted},
		"the KEP's third, with a namespace": {http.MethodPost,
			"/apis/demo.example.com/v1/namespaces/widgets/reviews", notPersisted},
		"the KEP's fourth": {http.MethodPost,
			"/apis/metrics.k8s.io/v1beta1/namespaces/a/pods", aggregated},
		"the KEP's fifth": {http.MethodPost,
			"/apis/crd.example.com/v1/namespaces/a/widgets", custom},
		"a resource of the core group":         {http.MethodPost, "/api/v1/namespaces/a/widgets", aggregated},
		"a request that is not for a resource": {http.MethodPost, "/metrics", nonResource},
		"a group alone":                        {http.MethodPost, "/apis/demo.example.com", nonResource},
		"a version alone":                      {http.MethodPost, "/apis/demo.example.com/v1", nonResource},
		"the root":                             {http.MethodPost, "/", nonResource},
	} {
		t.Run(name, func(t *testing.T) {
			p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1},
				Resource{GroupResource: gadgets, EncodingVersion: v1})
			served := 0
			barrier := Barrier(p, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				served++
				w.WriteHeader(http.StatusTeapot)
			}))
			if _, got := p.judge(httptest.NewRequest(test.method, test.path, nil)); got != test.passes {
				t.Errorf("the request passes because it %q, want %q", got, test.passes)
			}
			answer := send(barrier, test.method, test.path)
			if test.passes == barred {
				checkRefusal(t, answer)
			} else if answer.Code != http.StatusTeapot || served != 1 {
				t.Errorf("the request was answered with %d: %s", answer.Code, answer.Body)
			}
			open(p, widgets, gadgets)
			if answer := send(barrier, test.method, test.path); answer.Code != http.StatusTeapot {
				t.Errorf("after publication the request was answered with %d: %s", answer.Code, answer.Body)
			}
		})
	}
}

// checkRefusal compares with what kube-apiserver answers in the same state.
func checkRefusal(t *testing.T, answer *httptest.ResponseRecorder) {
	t.Helper()
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") != "1" ||
		answer.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the write was answered with %d and %v", answer.Code, answer.Header())
	}
	var status metav1.Status
	if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
		t.Fatal(err)
	}
	status.Message, status.Details.Kind = "", ""
	want := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: metav1.StatusReasonServiceUnavailable, Code: http.StatusServiceUnavailable,
		Details: &metav1.StatusDetails{Group: "demo.example.com", RetryAfterSeconds: 1},
	}
	if diff := compare.Diff(want, status); diff != "" {
		t.Errorf("the Status (-want +got):\n%s", diff)
	}
}

func TestWritesOfOneResourceDoNotWaitForAnother(t *testing.T) {
	p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1},
		Resource{GroupResource: gadgets, EncodingVersion: v1})
	barrier := Barrier(p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	open(p, widgets)
	if got := send(barrier, http.MethodPost, collection).Code; got != http.StatusOK {
		t.Errorf("a write of the published resource: %d", got)
	}
	if got := send(barrier, http.MethodPost,
		"/apis/demo.example.com/v1/gadgets").Code; got != http.StatusServiceUnavailable {
		t.Errorf("a write of the resource that is not published: %d", got)
	}
	if err := p.Check(nil); err == nil {
		t.Error("the server is ready before everything is published")
	}
	p.gate.confirm(gadgets, time.Now(), p.gate.period())
	if err := p.Check(nil); err != nil {
		t.Errorf("everything is published, and the server is not ready: %v", err)
	}
}

// I1: others drop an entry once the Lease, one minute, was seen unchanged for that long. No write may begin or go on
// then.
func TestBarrierClosesBeforeTheLeaseExpires(t *testing.T) {
	const lease = time.Minute
	for name, renew := range map[string]func(p *Publisher){
		"the Lease is not renewed":       func(p *Publisher) { p.gate.confirm(widgets, time.Now(), p.gate.period()) },
		"the entry is not looked at":     func(p *Publisher) { p.gate.renewed(time.Now()) },
		"the API server does not answer": func(*Publisher) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1})
				start := time.Now()
				open(p, widgets)
				var cancelled time.Duration
				slow := Barrier(p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					<-r.Context().Done()
					cancelled = time.Since(start)
				}))
				quick := Barrier(p, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				done := make(chan struct{})
				go func() { send(slow, http.MethodPost, collection); close(done) }()
				for time.Since(start) < lease {
					time.Sleep(time.Second)
					if time.Since(start) < lease*2/3 {
						renew(p)
					}
					want := http.StatusOK
					if time.Since(start) >= lease*2/3 {
						want = http.StatusServiceUnavailable
					}
					if got := send(quick, http.MethodPost, collection).Code; got != want {
						t.Fatalf("a write after %s was answered with %d, want %d", time.Since(start), got, want)
					}
					if ready := p.Check(nil) == nil; ready != (want == http.StatusOK) {
						t.Fatalf("after %s the server's readiness is %t", time.Since(start), ready)
					}
				}
				<-done
				if cancelled < lease*2/3 || cancelled >= lease {
					t.Errorf("the write in flight was cancelled after %s", cancelled)
				}
			})
		})
	}
}

func TestBarrierStaysOpenWhileRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1})
		open(p, widgets)
		ended, release := make(chan error, 1), make(chan struct{})
		barrier := Barrier(p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-release
			ended <- r.Context().Err()
		}))
		go send(barrier, http.MethodPost, collection)
		for range 60 {
			time.Sleep(10 * time.Second)
			p.gate.renewed(time.Now())
			p.gate.confirm(widgets, time.Now(), p.gate.period())
		}
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("the write was cancelled though everything was renewed: %v", err)
		}
	})
}

func TestBarrierClosesWhenTheEntryIsKnownToBeGone(t *testing.T) {
	for name, lose := range map[string]func(p *Publisher){
		"the entry is gone":          func(p *Publisher) { p.gate.revoke(widgets, http.ErrAbortHandler) },
		"the Lease is gone":          func(p *Publisher) { p.gate.left(http.ErrAbortHandler) },
		"the membership began again": func(p *Publisher) { p.gate.joined(time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1})
				open(p, widgets)
				start, before := time.Now(), p.gate.period()
				started, ended := make(chan struct{}), make(chan struct{})
				barrier := Barrier(p, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					close(started)
					<-r.Context().Done()
					close(ended)
				}))
				go send(barrier, http.MethodPost, collection)
				<-started
				lose(p)
				<-ended
				if waited := time.Since(start); waited > 0 {
					t.Errorf("the write in flight was cancelled after %s, want at once", waited)
				}
				if got := send(barrier, http.MethodPost, collection).Code; got != http.StatusServiceUnavailable {
					t.Errorf("a write was answered with %d", got)
				}
				// What was confirmed in the period before says nothing about the next one.
				p.gate.joined(time.Now())
				p.gate.confirm(widgets, time.Now(), before)
				if err := p.Check(nil); err == nil {
					t.Error("an old confirmation opened the barrier")
				}
			})
		})
	}
}

func TestPathsAreReadAsKubernetesReadsThem(t *testing.T) {
	for path, want := range map[string]schema.GroupResource{
		"/api/v1/namespaces":                         {Resource: "namespaces"},
		"/api/v1/namespaces/a":                       {Resource: "namespaces"},
		"/api/v1/namespaces/a/finalize":              {Resource: "namespaces"},
		"/api/v1/namespaces/a/status":                {Resource: "namespaces"},
		"/api/v1/namespaces/a/pods":                  {Resource: "pods"},
		"/api/v1/namespaces/a/pods/b/status":         {Resource: "pods"},
		"/api/v1/nodes/a":                            {Resource: "nodes"},
		"/apis/apps/v1/namespaces/a/deployments/b":   {Group: "apps", Resource: "deployments"},
		"/apis/demo.example.com/v1/namespaces/a/b/c": {Group: "demo.example.com", Resource: "b"},
	} {
		p := publisherOf(t, Resource{GroupResource: widgets, EncodingVersion: v1})
		if got, ok := p.resourceOf(httptest.NewRequest(http.MethodPost, path, nil)); !ok || got != want {
			t.Errorf("%s is for %v, want %v", path, got, want)
		}
	}
}

func TestLongLeasesAreRenewedOftenEnoughToBeSeen(t *testing.T) {
	p, err := NewPublisher(Options{
		Config: &rest.Config{Host: "http://127.0.0.1:1"}, Component: "demo", LeaseDuration: time.Hour,
		Resources: []Resource{{GroupResource: widgets, EncodingVersion: v1}},
	})
	if err != nil || p.interval > 10*time.Second {
		t.Errorf("a Lease of an hour is renewed every %s (%v)", p.interval, err)
	}
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	good := func() Options {
		return Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Component: "demo",
			Resources: []Resource{{GroupResource: widgets, EncodingVersion: v2,
				DecodableVersions: []schema.GroupVersion{v1, v2}}}}
	}
	if _, err := NewPublisher(good()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *Options){
		"no config":                       func(o *Options) { o.Config = nil },
		"no component":                    func(o *Options) { o.Component = "" },
		"the component of kube-apiserver": func(o *Options) { o.Component = "kube-apiserver" },
		"a component that is no label":    func(o *Options) { o.Component = "a b" },
		"an ID that no Lease can have":    func(o *Options) { o.ID = "A_1" },
		"a namespace that is none":        func(o *Options) { o.Namespace = "../a" },
		"another API":                     func(o *Options) { o.API = "example.com" },
		"a Lease of half a second":        func(o *Options) { o.LeaseDuration = time.Second / 2 },
		"a Lease of a broken second":      func(o *Options) { o.LeaseDuration = 3500 * time.Millisecond },
		"a negative time to drain":        func(o *Options) { o.DrainTimeout = -1 },
		"no resources":                    func(o *Options) { o.Resources = nil },
		"a resource twice":                func(o *Options) { o.Resources = slices.Repeat(o.Resources, 2) },
		"a resource without a name":       func(o *Options) { o.Resources[0].Resource = "" },
		"an encoding that is not decoded": func(o *Options) { o.Resources[0].DecodableVersions = []schema.GroupVersion{v1} },
		"no encoding version":             func(o *Options) { o.Resources[0] = Resource{GroupResource: widgets} },
		"a served version not decodable":  func(o *Options) { o.Resources[0].ServedVersions = []schema.GroupVersion{{Version: "v3"}} },
	} {
		t.Run(name, func(t *testing.T) {
			o := good()
			change(&o)
			if _, err := NewPublisher(o); err == nil {
				t.Error("the options were taken")
			}
		})
	}
}
