// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// apiServer answers reviews: it knows the tokens "scraper", which may read, and "stranger", which may not.
type apiServer struct {
	mu     sync.Mutex
	tokens []string      // of the TokenReviews
	now    int           // reviews at this time
	most   int           // reviews at one time
	takes  time.Duration // what a review takes
}

func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var review struct {
		Spec struct {
			Token                 string
			User                  string
			NonResourceAttributes struct{ Path, Verb string }
		}
	}
	if err := json.Unmarshal(raw, &review); err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.now++
	a.most = max(a.most, a.now)
	if review.Spec.Token != "" {
		a.tokens = append(a.tokens, review.Spec.Token)
	}
	a.mu.Unlock()
	select {
	case <-time.After(a.takes):
	case <-r.Context().Done():
		err = r.Context().Err()
	}
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
	if err != nil {
		return nil, err
	}
	token := review.Spec.Token
	answer := fmt.Sprintf(`{"status":{"authenticated":%t,"user":{"username":%q},"allowed":%t}}`, token == "scraper" ||
		token == "stranger", token,
		review.Spec.User == "scraper" && review.Spec.NonResourceAttributes.Path == Path &&
			review.Spec.NonResourceAttributes.Verb == "get")
	return &http.Response{
		StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: r,
	}, nil
}

func (a *apiServer) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tokens)
}

func (a *apiServer) config() *rest.Config {
	return &rest.Config{Host: "http://api.example.com", Transport: a}
}

// serve starts a server whose only metric is made_up, and returns its address.
func serve(t *testing.T, a *apiServer, o Options) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "made_up"}, func() float64 { return 1 }))
	o.Address, o.Config, o.Metrics = "127.0.0.1:0", a.config(), registry
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

func get(t *testing.T, address, path, token string, config *tls.Config) (*http.Response, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if config == nil {
		config = &tls.Config{InsecureSkipVerify: true}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response, string(body), err
}

func TestOnlyUsersWhoMayReadMetricsDo(t *testing.T) {
	t.Parallel()
	api := &apiServer{}
	address := serve(t, api, Options{})
	for name, test := range map[string]struct {
		path, token string
		want, asked int
	}{
		"a user who may":          {Path, "scraper", http.StatusOK, 1},
		"a user who may not":      {Path, "stranger", http.StatusForbidden, 1},
		"a token that no one has": {Path, "nonsense", http.StatusUnauthorized, 1},
		"no token":                {Path, "", http.StatusUnauthorized, 0},
		"another path":            {"/debug/pprof/heap", "scraper", http.StatusNotFound, 0},
		"a token of 16 KiB":       {Path, strings.Repeat("x", maxToken), http.StatusUnauthorized, 1},
		"a larger token":          {Path, strings.Repeat("x", maxToken+1), http.StatusRequestHeaderFieldsTooLarge, 0},
		"a token of 512 KiB":      {Path, strings.Repeat("x", 1<<19), http.StatusRequestHeaderFieldsTooLarge, 0},
		"a URL of 512 KiB": {Path + "?" + strings.Repeat("x", 1<<19), "scraper",
			http.StatusRequestHeaderFieldsTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := api.asked()
			response, body, err := get(t, address, test.path, test.token, nil)
			if err != nil && test.want == http.StatusRequestHeaderFieldsTooLarge {
				return // the connection was closed while the rest was being sent
			}
			if err != nil {
				t.Fatal(err)
			}
			if response.StatusCode != test.want || strings.Contains(body, "made_up 1") != (test.want == http.StatusOK) {
				t.Errorf("%d %.200s, want %d", response.StatusCode, body, test.want)
			}
			if asked := api.asked() - before; asked != test.asked {
				t.Errorf("the API server was asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

func TestNeitherHTTP2NorOldTLSIsSpoken(t *testing.T) {
	t.Parallel()
	address := serve(t, &apiServer{}, Options{})
	response, _, err := get(t, address, Path, "scraper", nil)
	if err != nil || response.ProtoMajor != 1 {
		t.Errorf("a client that prefers HTTP/2 got %v, %v; want HTTP/1.1", response, err)
	}
	if _, _, err := get(t, address, Path, "scraper",
		&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		t.Error("TLS 1.2 was accepted")
	}
}

func TestACertificateIsReadFromItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key, err := cert.GenerateSelfSignedCertKey("metrics.example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := serve(t, &apiServer{}, Options{CertDir: dir})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	response, _, err := get(t, address, Path, "scraper", &tls.Config{RootCAs: roots, ServerName: "metrics.example.com"})
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("with the folder's certificate: %v, %v", response, err)
	}

	_, err = New(t.Context(), Options{Address: "127.0.0.1:0", Config: new(apiServer).config(), CertDir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder without a certificate: %v, want the missing file named", err)
	}
}

// Connections beyond the bound wait, and are accepted when others end.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	address := serve(t, &apiServer{}, Options{})
	var open []net.Conn
	for range maxConnections {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	answered := make(chan error, 1)
	go func() {
		_, _, err := get(t, address, Path, "scraper", nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("one more was answered besides %d: %v", maxConnections, err)
	case <-time.After(200 * time.Millisecond):
	}
	for _, c := range open {
		c.Close()
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		r, err := newReviews(api.config())
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			token string
			want  int
			life  time.Duration
		}{
			{"scraper", http.StatusOK, allowedLife}, {"stranger", http.StatusForbidden, refusedLife},
			{"nonsense", http.StatusUnauthorized, refusedLife},
		} {
			for _, moment := range []struct {
				wait  time.Duration
				asked int
			}{{0, 1}, {test.life - time.Millisecond, 0}, {time.Millisecond, 1}} {
				time.Sleep(moment.wait)
				before := api.asked()
				code, err := r.ask(t.Context(), test.token)
				if err != nil || code != test.want || api.asked()-before != moment.asked {
					t.Errorf("%s: %d (%v) with %d questions, want %d with %d", test.token, code, err,
						api.asked()-before, test.want, moment.asked)
				}
			}
		}
	})
}

func TestAFloodOfTokensAsksFewQuestionsAndDrivesOutNoScraper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{}
		r, err := newReviews(api.config())
		if err != nil {
			t.Fatal(err)
		}
		if code, err := r.ask(t.Context(), "scraper"); code != http.StatusOK || err != nil {
			t.Fatal(code, err)
		}
		api.takes = 10 * time.Millisecond
		var flood sync.WaitGroup
		for i := range 3 * maxRemembered {
			flood.Go(func() { _, _ = r.ask(t.Context(), fmt.Sprint("made up ", i)) })
		}
		flood.Wait()
		if api.most > maxAsking {
			t.Errorf("%d reviews at one time, want at most %d", api.most, maxAsking)
		}
		if len(r.refused) > maxRemembered || len(r.allowed) != 1 {
			t.Errorf("%d refusals and %d scrapers are remembered, want at most %d, and 1", len(r.refused),
				len(r.allowed), maxRemembered)
		}
		before := api.asked()
		if code, _ := r.ask(t.Context(), "scraper"); code != http.StatusOK || api.asked() != before {
			t.Errorf("the scraper got %d and the API server was asked again", code)
		}
	})
}

func TestARequestDoesNotWaitIndefinitelyToBeAuthenticated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{takes: time.Hour}
		r, err := newReviews(api.config())
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var slow sync.WaitGroup
		for i := range maxAsking {
			slow.Go(func() {
				if _, err := r.ask(t.Context(), fmt.Sprint(i)); err == nil {
					t.Error("a review that takes an hour was waited for")
				}
			})
		}
		synctest.Wait()
		if _, err := r.ask(t.Context(), "scraper"); !errors.Is(err, errBusy) || time.Since(begin) != patience {
			t.Errorf("after %v: %v, want errBusy after %v", time.Since(begin), err, patience)
		}
		slow.Wait()
		if passed := time.Since(begin); passed != reviewTimeout {
			t.Errorf("the slow reviews ended after %v, want %v", passed, reviewTimeout)
		}
	})
}
