// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lockStub is a Lease that takes every write, or none.
type lockStub struct {
	resourcelock.Interface
	err error
}

func (l *lockStub) Identity() string { return "me" }

func (l *lockStub) Update(context.Context, resourcelock.LeaderElectionRecord) error { return l.err }

func TestALeaderWritesOnlyWhileItsLeaseIsSurelyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := &lockStub{}
		f := &fence{Interface: lock, valid: 10 * time.Second}
		sent := 0
		config := f.wrap(&rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			return &http.Response{StatusCode: http.StatusOK}, nil
		})})
		transport := config.WrapTransport(config.Transport)
		writes := func(method string) bool {
			request, err := http.NewRequestWithContext(t.Context(), method, "https://api.example.com/", nil)
			if err != nil {
				t.Fatal(err)
			}
			before := sent
			_, err = transport.RoundTrip(request)
			if err != nil && !errors.Is(err, errNotLeading) {
				t.Errorf("%s: %v", method, err)
			}
			return sent > before
		}
		renew := func(holder string) {
			_ = f.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if writes(method) {
				t.Errorf("%s before the Lease was won", method)
			}
		}
		if !writes(http.MethodGet) {
			t.Error("reading needs no Lease")
		}
		renew("me")
		time.Sleep(9 * time.Second)
		if !writes(http.MethodPatch) {
			t.Error("the Lease is ours, and a write is refused")
		}
		lock.err = errors.New("no answer")
		renew("me")
		time.Sleep(time.Second)
		if writes(http.MethodPatch) {
			t.Error("a write although the Lease was not renewed in time")
		}
		lock.err = nil
		renew("me")
		renew("")
		if writes(http.MethodPatch) {
			t.Error("a write after the Lease was given up")
		}
	})
}
