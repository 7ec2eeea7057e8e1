// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// fleet is some scripted servers that share their Leases, a certificate and one address.
type fleet struct {
	ca      []byte
	tls     *tls.Config
	servers []*scripted
	web     []*httptest.Server
	next    atomic.Int64
	// behind are the servers that the address leads to.
	behind atomic.Pointer[[]int]
}

// started is when the process of a server started, in seconds: shortly before its Lease was created.
func started(i int) string { return fmt.Sprintf("%d.25", 1767265190+i) }

func newFleet(t *testing.T, release string, n int) *fleet {
	certificate, key, err := cert.GenerateSelfSignedCertKey(apiserver.ServerName, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	f, now := &fleet{ca: certificate, tls: &tls.Config{Certificates: []tls.Certificate{pair}}}, time.Now()
	var holders, all = []string{}, []int{}
	for i := range n {
		holders, all = append(holders, fmt.Sprintf("%c_1", 'a'+i)), append(all, i)
	}
	for i := range n {
		s := &scripted{holders: [][]string{holders}, release: release, hash: "h", started: started(i), renewed: now}
		f.servers, f.web = append(f.servers, s), append(f.web, f.start(t, s, f.tls))
	}
	f.behind.Store(&all)
	return f
}

func (f *fleet) start(t *testing.T, handler http.Handler, config *tls.Config) *httptest.Server {
	web := httptest.NewUnstartedServer(handler)
	web.EnableHTTP2 = true
	if config != nil {
		web.TLS = config.Clone()
	}
	web.StartTLS()
	t.Cleanup(web.Close)
	return web
}

func (f *fleet) choose() *httptest.Server {
	behind := *f.behind.Load()
	return f.web[behind[int(f.next.Add(1))%len(behind)]]
}

// config leads each connection to the next server.
func (f *fleet) config(t *testing.T) *rest.Config {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", f.choose().Listener.Addr().String())
			if err != nil {
				from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); to.Close() }()
			go func() { _, _ = io.Copy(from, to); from.Close() }()
		}
	}()
	return &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: f.ca}}
}

// proxied leads each request to the next server, over one connection. The proxy shows the certificate of an API server,
// or one of its own.
func (f *fleet) proxied(t *testing.T, own bool) *rest.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.ca)
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			to, _ := url.Parse(f.choose().URL)
			r.SetURL(to)
		}}
	if !own {
		return &rest.Config{Host: f.start(t, proxy, f.tls).URL, TLSClientConfig: rest.TLSClientConfig{CAData: f.ca}}
	}
	web := f.start(t, proxy, nil)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	return &rest.Config{Host: web.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func TestServersBehindOneAddressAreAskedOverAConnectionToEach(t *testing.T) {
	const recent, old = "v1.37.0", "v1.32.4"
	for name, tt := range map[string]struct {
		release  string
		change   func(f *fleet)
		proxy    string // "own": with a certificate of its own; "alike": with that of an API server
		evidence migrate.Evidence
		reason   string
	}{
		"three servers":             {recent, func(*fleet) {}, "", migrate.Observed, ""},
		"three of an older release": {old, func(*fleet) {}, "", migrate.Observed, ""},
		"one that no connection reaches": {recent, func(f *fleet) { f.behind.Store(&[]int{0, 2}) }, "", migrate.Sampled,
			"lead to 2 API servers, and identity Leases show 3"},
		"two that started at the same moment": {recent, func(f *fleet) { f.servers[1].started = f.servers[2].started }, "",
			migrate.Sampled, "lead to 2 API servers, and identity Leases show 3"},
		"one that has no Lease yet, and one that is not reached": {recent, func(f *fleet) {
			f.servers[1].started = "1767268800"
		}, "", migrate.Sampled, "has no identity Lease yet"},
		"a proxy that hands on requests":        {recent, func(*fleet) {}, "own", migrate.Sampled, "as those of a proxy do"},
		"a proxy before servers that are older": {old, func(*fleet) {}, "own", migrate.Sampled, "as those of a proxy do"},
		"a proxy that looks like an API server": {recent, func(*fleet) {}, "alike", migrate.Sampled, "as those of a proxy do"},
		"a proxy that leads to one of them": {recent, func(f *fleet) { f.behind.Store(&[]int{1}) }, "own", migrate.Sampled,
			"as those of a proxy do"},
		"reading when they started is forbidden": {recent, forbidMetrics, "", migrate.Sampled, "is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tt.release, 3)
			tt.change(f)
			config := f.config(t)
			if tt.proxy != "" {
				config = f.proxied(t, tt.proxy == "own")
			}
			e, explanation := lookAt(t, observe(t, config, deviceClasses))
			if e.Evidence != tt.evidence || !strings.Contains(explanation.Reason, tt.reason) || len(e.Servers) != 3 {
				t.Errorf("the epoch is %+v: %s", e, explanation)
			}
		})
	}
}

func forbidMetrics(f *fleet) {
	for _, s := range f.servers {
		s.started = ""
	}
}

// A process without a Lease must not count for one that is not met.
func TestAProcessWithoutALeaseIsNoticed(t *testing.T) {
	for _, release := range []string{"v1.37.0", "v1.32.4"} {
		f := newFleet(t, release, 3)
		for _, s := range f.servers {
			s.holders[0] = s.holders[0][:2]
		}
		f.behind.Store(&[]int{0, 1, 0, 1, 0, 1, 0, 2}) // few connections reach it
		e, explanation := lookAt(t, observe(t, f.config(t), deviceClasses))
		if e.Evidence != migrate.Sampled || !strings.Contains(explanation.Reason, "lead to 3 API servers") {
			t.Errorf("%s: the epoch is %+v: %s", release, e, explanation)
		}
	}
}

func TestAnAddressWithoutALeaseIsNoticed(t *testing.T) {
	f := newFleet(t, "v1.37.0", 2)
	for _, s := range f.servers {
		s.endpointSlice = `{"endpoints": [{"addresses": ["192.0.2.1", "192.0.2.2", "192.0.2.3"]}]}`
	}
	e, explanation := lookAt(t, observe(t, f.config(t), deviceClasses))
	if e.Evidence != migrate.Sampled || !strings.Contains(explanation.Reason, "more addresses than identity Leases") {
		t.Errorf("the epoch is %+v: %s", e, explanation)
	}
}

func TestOneServerBehindTheAddressThatWritesAnotherVersionIsSeen(t *testing.T) {
	f := newFleet(t, "v1.37.0", 3)
	f.servers[1].hash = "other"
	if _, err := observe(t, f.config(t), deviceClasses).Epoch(t.Context()); !errors.Is(err, migrate.ErrDisagreement) {
		t.Errorf("the error is %v, want a disagreement", err)
	}
}

func TestAConnectionThatEndsCostsAReadingAndNotTheEpoch(t *testing.T) {
	for name, tt := range map[string]struct {
		release string
		started string // of the process after its connections were closed
		same    bool
	}{
		"a recent release":               {"v1.37.0", started(1), true},
		"an older one":                   {"v1.32.4", started(1), true},
		"an older one that was replaced": {"v1.32.4", "1767265300.5", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, tt.release, 3)
			r := observe(t, f.config(t), deviceClasses)
			before, _ := lookAt(t, r)
			readings := func() (n int32) {
				for _, s := range f.servers {
					n += s.metrics.Load()
				}
				return n
			}
			first := readings()
			if again, _ := lookAt(t, r); !again.Same(before) || again.Evidence != migrate.Observed || readings() != first {
				t.Errorf("the next look shows %+v after %d readings more", again, readings()-first)
			}
			f.servers[1].started = tt.started
			f.web[1].CloseClientConnections()
			now, err := r.Epoch(t.Context())
			for range 100 { // until the client has noticed
				if err == nil && now.Evidence == migrate.Observed {
					break
				}
				now, err = r.Epoch(t.Context())
			}
			if err != nil || now.Evidence != migrate.Observed {
				t.Fatalf("then %+v, %v: %s", now, err, r.Explanation())
			}
			if now.Same(before) != tt.same {
				t.Errorf("then %v, before %v", now.Servers, before.Servers)
			}
		})
	}
}

func TestARoundAsksServersBehindOneAddressToo(t *testing.T) {
	f := newFleet(t, "v1.37.0", 3)
	o, err := NewObserver(f.config(t), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
	if v.Evidence != migrate.Observed || len(v.Servers) != 3 ||
		slices.ContainsFunc(v.Servers, func(s Server) bool { return !s.Answered || s.Hash != "h" }) {
		t.Errorf("the verdict is %+v", v)
	}
	f.servers[2].hash = "other"
	v = verdictOf(t, roundOf(t, o), "resource.k8s.io", "deviceclasses")
	if diff := compare.Diff([]string{"h", "other"}, v.Hashes); diff != "" || !v.Disagree {
		t.Errorf("disagree %t, hashes (-want +got):\n%s", v.Disagree, diff)
	}
}
