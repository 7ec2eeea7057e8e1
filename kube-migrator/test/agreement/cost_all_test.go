// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package agreement_test

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestTheCostOfARoundWithManyCRDs(t *testing.T) {
	const crds = 300
	cluster := testbed.New(t, testbed.Options{Isolated: true, Servers: make([]testbed.ServerOptions, 2)})
	if err := cluster.DefineThings(t.Context(), crds, 20<<10); err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	sent, discovered := 0, map[string]bool{}
	config := cluster.Config()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			sent++
			if parts := strings.Split(r.URL.Path, "/"); len(parts) == 4 && parts[1] == "apis" ||
				len(parts) == 3 && parts[1] == "api" {
				discovered[r.URL.Path] = true
			}
			mu.Unlock()
			return rt.RoundTrip(r)
		})
	})
	o, err := agreement.NewObserver(config, agreement.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for round, deadline := 0, time.Now().Add(2*time.Minute); ; {
		sent = 0
		clear(discovered)
		var before, after, peak runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		r, err := o.Round(t.Context())
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&peak)
		runtime.GC()
		runtime.ReadMemStats(&after)
		agreed := 0
		for _, v := range r.Verdicts {
			if v.Evidence == migrate.Observed && v.Resource.Resource == "things" {
				agreed++
			}
		}
		// A document for each of two servers, and a few small requests.
		perDocument := float64(sent) / float64(2*len(discovered))
		t.Logf("%d requests for %d group-versions at 2 servers, %.2f for each; %v; allocated %d KiB, kept %d KiB; %d "+
			"of %d CRDs agreed on",
			sent, len(discovered), perDocument, took.Round(time.Millisecond), (peak.TotalAlloc-before.TotalAlloc)>>10,
			(int64(after.HeapAlloc)-int64(before.HeapAlloc))>>10, agreed, crds)
		if agreed < crds { // the servers have not all begun to serve them
			if time.Now().After(deadline) {
				t.Fatalf("not within two minutes: %d CRDs agreed on by two servers; %v", crds, r.Unread)
			}
			time.Sleep(time.Second)
			continue
		}
		if perDocument > 1.2 {
			t.Errorf("the round sent %.2f requests per group-version and server, want at most 1.2", perDocument)
		}
		if kept := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; kept > 8 {
			t.Errorf("the round keeps %d MiB, want no schemas in it", kept)
		}
		runtime.KeepAlive(r)
		if round++; round == 3 {
			return
		}
	}
}
