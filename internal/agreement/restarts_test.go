// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/pem"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Releases before 1.35 keep the holder of the Lease over a restart.
func TestARestartIsSeenByTheStartOfTheProcess(t *testing.T) {
	const first, later = "1.76432e+09", "1.76432001234e+09"
	for name, tt := range map[string]struct {
		http1    bool
		closed   bool   // all connections, between two looks
		started  string // at the second look
		same     bool
		readings int32
	}{
		"nothing happened":                       {false, false, first, true, 1},
		"nothing happened, over HTTP/1.1":        {true, false, first, true, 1},
		"its connections were closed":            {false, true, first, true, 2},
		"its connections were closed (HTTP/1.1)": {true, true, first, true, 2},
		"it was replaced":                        {false, true, later, false, 2},
		"it was replaced, over HTTP/1.1":         {true, true, later, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{holders: [][]string{{"a_1"}}, release: "v1.32.4", hash: "h", started: first}
			server := httptest.NewUnstartedServer(s)
			server.EnableHTTP2 = !tt.http1
			server.StartTLS()
			t.Cleanup(server.Close)
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			r := observe(t, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, deviceClasses)
			before, explanation := lookAt(t, r)
			if before.Evidence != migrate.Observed || !slices.Equal(before.Servers,
				[]string{"a_1 started 2025-11-28T08:53:20.000Z"}) {
				t.Fatalf("the epoch is %+v: %s", before, explanation)
			}
			if again, _ := lookAt(t, r); !again.Same(before) || s.metrics.Load() != 1 && !tt.http1 {
				t.Errorf("the next look shows %v after %d readings of the metrics", again.Servers, s.metrics.Load())
			}
			if s.started = tt.started; tt.closed {
				server.CloseClientConnections()
			}
			now, err := r.Epoch(t.Context())
			for i := 0; err != nil && i < 100; i++ { // until the client has noticed
				now, err = r.Epoch(t.Context())
			}
			// HTTP/1.1 has a connection for each request in flight.
			if readings := s.metrics.Load(); now.Same(before) != tt.same || readings != tt.readings && !tt.http1 ||
				readings > 3 {
				t.Errorf("then %v after %v and %d readings of the metrics", now.Servers, before.Servers, readings)
			}
		})
	}
}

func TestAServerThatHidesItsRestartsIsSampled(t *testing.T) {
	for name, s := range map[string]*scripted{
		"reading its metrics is forbidden": {release: "v1.34.4"},
		"its metrics do not say it":        {release: "v1.34.4", started: "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			s.holders, s.hash = [][]string{{"a_1"}}, "h"
			e, explanation := lookAt(t, observe(t, serve(t, s), deviceClasses))
			if e.Evidence != migrate.Sampled || !slices.Equal(e.Servers, []string{"a_1"}) ||
				!strings.Contains(explanation.Reason, "v1.34.4") || !strings.Contains(explanation.Reason, "/metrics") {
				t.Errorf("the epoch is %+v: %s", e, explanation)
			}
		})
	}
}

func TestARoundShowsTheStartsOfProcesses(t *testing.T) {
	s := &scripted{holders: [][]string{{"a_1"}}, release: "v1.32.4", hash: "h", started: "1.76432e+09"}
	o, err := NewObserver(serve(t, s), look.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := roundOf(t, o)
	want := []string{"a_1 started 2025-11-28T08:53:20.000Z"}
	if !slices.Equal(r.Processes, want) {
		t.Errorf("processes %v, want %v", r.Processes, want)
	}
}
