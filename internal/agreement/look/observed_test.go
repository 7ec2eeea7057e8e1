// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package look

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestWhetherAllServersCanBeAsked(t *testing.T) {
	oneLive := snapshot.Leases{Known: true, Live: []snapshot.Server{{Holder: "a_1"}}}
	twoLive := snapshot.Leases{Known: true, Live: []snapshot.Server{{Holder: "a_1"}, {Holder: "b_1"}}}
	known := func(addresses ...string) snapshot.Endpoints {
		return snapshot.Endpoints{Known: true, Addresses: addresses}
	}
	for name, tt := range map[string]struct {
		leases    snapshot.Leases
		endpoints snapshot.Endpoints
		want      string
	}{
		"as many addresses as Leases":                {twoLive, known("a", "b"), ""},
		"one Lease, one address":                     {oneLive, known("a"), ""},
		"one Lease, no address: the kubeconfig's do": {oneLive, known(), ""},
		"a server without a Lease lives next to the one with": {
			oneLive, known("a", "b"), "identity Leases show 1 API server, but EndpointSlice " +
				"default/kubernetes has 2",
		},
		"servers share one address": {
			twoLive, known("a"), "identity Leases show 2 API servers, but EndpointSlice default/kubernetes has 1",
		},
		"Leases may not be read":    {snapshot.Leases{Why: "no Leases"}, known("a"), "no Leases"},
		"addresses may not be read": {oneLive, snapshot.Endpoints{Why: "no addresses"}, "no addresses"},
		"two processes renew one Lease": {
			snapshot.Leases{Known: true, Live: oneLive.Live, Doubled: "a"}, known("a"),
			"two API servers with one host name share the identity Lease a and cannot be told apart",
		},
		"all Leases are stale": {snapshot.Leases{Known: true}, known("a"), "no API server has a fresh identity Lease"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := countable(tt.leases, tt.endpoints); got != tt.want {
				t.Errorf("countable() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatRepliesAreWorth(t *testing.T) {
	ok := reply{process: process{release: "v1.37.0"}}
	for name, tt := range map[string]struct {
		replies  []reply
		evidence migrate.Evidence
		why      string
	}{
		"all answered":                    {[]reply{ok, ok}, migrate.Observed, ""},
		"a vendor's release counts alike": {[]reply{{process: process{release: "v1.35.2-vendor.7+abc"}}}, migrate.Observed, ""},
		"some are silent": {
			[]reply{ok, {skipped: true}, {err: errors.New("no route")}}, 0,
			"2 of 3 servers' own addresses do not answer",
		},
		"an old server shows when it started": {
			[]reply{ok, {process: process{release: "v1.34.4", started: time.Unix(1, 0)}}}, migrate.Observed, "",
		},
		"an old server hides its restarts": {
			[]reply{ok, {process: process{release: "v1.34.4", unread: "no one may ask"}}}, 0, "API servers older than " +
				"1.35 do not show by their Leases that they were restarted (v1.34.4), and no one may ask",
		},
		"an unknown release may be old": {
			[]reply{{process: process{unread: "no one may ask"}}}, 0, "API servers older than 1.35 do not show by their " +
				"Leases that they were restarted (), and no one may ask",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(tt.replies)
			if got.Evidence != tt.evidence || got.Why != tt.why || got.RestartsSeen != (tt.why == "") {
				t.Errorf("judge() = %+v, want evidence %v because %q", got, tt.evidence, tt.why)
			}
		})
	}
}

func TestReleasesFromWhichOnRestartsAreSeen(t *testing.T) {
	for release, want := range map[string]bool{
		"v1.35.0": true, "v1.37.0": true, "v1.35.2-vendor.7+abc": true, "v2.0.0": true, "v1.34.4": false,
		"v1.30.14": false, "v1.4.0": false, "": false, "unknown": false,
	} {
		if got := snapshot.ShowsRestarts(release); got != want {
			t.Errorf("ShowsRestarts(%q) = %t, want %t", release, got, want)
		}
	}
}

func TestAnAddressThatDoesNotAnswer(t *testing.T) {
	const address = "192.0.2.11:6443"
	silent := reply{err: context.DeadlineExceeded}
	synctest.Test(t, func(t *testing.T) {
		o := newObserved(&client{timeout: 5 * time.Second})
		if d, ok := o.timeoutFor(address, time.Now()); !ok || d != probeTimeout {
			t.Errorf("a new address is asked %t with a timeout of %v, want %v", ok, d, probeTimeout)
		}
		if err := o.record(address, silent, time.Now()); err != nil {
			t.Errorf("one that never answered voids the look: %v", err)
		}
		if _, ok := o.timeoutFor(address, time.Now()); ok {
			t.Error("it is asked again at once")
		}
		time.Sleep(probeAgainAfter)
		if _, ok := o.timeoutFor(address, time.Now()); !ok {
			t.Error("it is not asked again a minute later")
		}
		if err := o.record(address, reply{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if d, ok := o.timeoutFor(address, time.Now()); !ok || d != 5*time.Second {
			t.Errorf("one that answered is asked %t with a timeout of %v, want the whole 5 s", ok, d)
		}
		time.Sleep(servers.MissedFor - time.Second)
		if err := o.record(address, silent, time.Now()); err == nil {
			t.Error("one lost reply makes evidence weaker, want it to void the look")
		}
		time.Sleep(time.Second)
		if err := o.record(address, silent, time.Now()); err != nil {
			t.Errorf("half a minute of silence still voids the look: %v", err)
		}
		busy := reply{err: apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "get",
			schema.GroupResource{}, "", "", 1, false)}
		if err := o.record(address, busy, time.Now()); err == nil {
			t.Error("a server that is busy counts as one that does not answer")
		}
		refused := reply{err: apierrors.NewUnauthorized("")}
		if err := o.record(address, refused, time.Now()); err != nil {
			t.Errorf("a server that refuses our credentials voids the look: %v", err)
		}
	})
}
