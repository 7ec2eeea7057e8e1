// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// scripted is an API server whose identity Leases differ from one reading to the next, which a real server cannot be
// made to do at the right moment. The last set stays.
type scripted struct {
	holders [][]string
	release string
	hash    string
	read    int // how often the Leases were read
	// documents is how often discovery was.
	documents atomic.Int32
	renewed   time.Time
	// started is what the metrics say; without it reading them is forbidden. metrics is how often they were read.
	started       string
	endpointSlice string
	metrics       atomic.Int32
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/leases"):
		var items []string
		if s.renewed.IsZero() {
			s.renewed = time.Now()
		}
		for _, h := range s.holders[min(s.read, len(s.holders)-1)] {
			items = append(items, fmt.Sprintf(`{"metadata": {"name": %q, "creationTimestamp": "2026-01-01T11:00:00Z"}, "spec": {"holderIdentity": %q, "renewTime": %q}}`,
				h[:1], h, s.renewed.UTC().Format("2006-01-02T15:04:05.000000Z")))
		}
		s.read++
		fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(items, ","))
	case strings.HasSuffix(r.URL.Path, "/endpointslices"):
		fmt.Fprintf(w, `{"items": [%s]}`, s.endpointSlice)
	case r.URL.Path == "/metrics" && s.started == "":
		http.Error(w, `{"kind": "Status", "code": 403, "message": "no"}`, http.StatusForbidden)
	case r.URL.Path == "/metrics":
		s.metrics.Add(1)
		fmt.Fprintf(w, "# HELP process_start_time_seconds [STABLE] Start time\nprocess_start_time_seconds %s\nzzz 1\n", s.started)
	case r.URL.Path == "/apis":
		fmt.Fprint(w, `{"groups": [{"name": "resource.k8s.io", "versions": [{"version": "v1"}]}]}`)
	case r.URL.Path == "/version":
		fmt.Fprintf(w, `{"gitVersion": %q}`, s.release)
	case strings.Contains(r.URL.Path, "/storageversions"):
		http.NotFound(w, r)
	case s.hash == "":
		http.Error(w, `{"kind": "Status", "code": 503, "message": "not yet"}`, http.StatusServiceUnavailable)
	default:
		s.documents.Add(1)
		fmt.Fprintf(w, `{"resources": [{"name": "deviceclasses/status"}, {"name": "deviceclasses", "storageVersionHash": %q}]}`, s.hash)
	}
}

func TestALookIsFramedByLeases(t *testing.T) {
	a, b, c := []string{"a_1"}, []string{"a_2"}, []string{"a_3"}
	for name, tt := range map[string]struct {
		holders [][]string
		want    []string // nil: the look fails
	}{
		"no server came or went":                      {[][]string{a, a}, a},
		"a server was replaced during the look":       {[][]string{a, b, b}, b},
		"replaced twice during the look":              {[][]string{a, b, c, c}, c},
		"servers come and go as often as one looks":   {[][]string{a, b, a, b, a, b, a}, nil},
		"a server came and went: all are asked again": {[][]string{a, nil, a, a}, a},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{holders: tt.holders, release: "v1.37.0", hash: "h"}
			r := observe(t, serve(t, s), deviceClasses)
			e, err := r.Epoch(t.Context())
			if tt.want == nil {
				if err == nil || errors.Is(err, migrate.ErrDisagreement) {
					t.Fatalf("the look says %+v, %v, want a plain error", e, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := compare.Diff(tt.want, e.Servers); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			// The next look compares with what this one ended with.
			read := s.read
			if again, err := r.Epoch(t.Context()); err != nil || !again.Same(e) || s.read != read+1 {
				t.Errorf("the next look says %+v, %v, after %d more readings of the Leases, want the same after 1",
					again, err, s.read-read)
			}
		})
	}
}

func TestARoundIsFramedByLeases(t *testing.T) {
	a, b := []string{"a_1"}, []string{"a_2"}
	s := &scripted{holders: [][]string{a, b, b}, release: "v1.37.0", hash: "h"}
	o, err := NewObserver(serve(t, s), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		r, err := o.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Moved != want || !slices.Equal(r.Processes, b) || s.read != 2*(i+1) {
			t.Errorf("round %d: moved %t, processes %v, after %d readings of the Leases; want %t and %v after %d", i,
				r.Moved, r.Processes, s.read, want, b, 2*(i+1))
		}
	}
}

func TestAFailedLookReadsTheLeasesAgain(t *testing.T) {
	s := &scripted{holders: [][]string{{"a_1"}}, release: "v1.37.0"}
	r := observe(t, serve(t, s), deviceClasses)
	if _, err := r.Epoch(t.Context()); err == nil || errors.Is(err, snapshot.ErrNotServed) ||
		!apierrors.IsServiceUnavailable(err) {
		t.Fatalf("error is %v, want the server's 503", err)
	}
	s.hash = "h"
	read := s.read
	if _, err := r.Epoch(t.Context()); err != nil || s.read != read+2 {
		t.Errorf("error is %v after %d readings of the Leases, want none after 2", err, s.read-read)
	}
}

// serve returns the configuration of a client for a handler.
func serve(t *testing.T, handler http.Handler) *rest.Config {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}
