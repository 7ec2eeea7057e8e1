// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const webhookAway = `conversion webhook for demo.example.com/v1, Kind=Widget failed: Post "https://x": dial tcp 10.0.0.1:443: connect: connection refused`

// A component that does not answer must not keep a run, and the turn of others, for as long as it has objects (I5).
func TestAnOutageEndsTheRunAndTheNextOneGoesOn(t *testing.T) {
	const n = 400
	number := func(name string) int {
		i, _ := strconv.Atoi(strings.TrimPrefix(name, "o"))
		return i
	}
	away := func(w http.ResponseWriter) bool { return refuse(w, http.StatusInternalServerError, webhookAway) }
	for name, tt := range map[string]struct {
		inFlight int
		patch    func(name string, w http.ResponseWriter) bool
		looks    error // while patches fail
		most     time.Duration
		outage   bool // is what the run ends with
		stalled  bool
	}{
		"a conversion webhook that is away": {patch: func(_ string, w http.ResponseWriter) bool { return away(w) },
			most: 11 * time.Minute, outage: true, stalled: true},
		"one object after the other": {inFlight: 1, most: 11 * time.Minute, outage: true, stalled: true,
			patch: func(_ string, w http.ResponseWriter) bool { return away(w) }},
		"an API server that is away": {looks: errors.New("no answer"), most: 11 * time.Minute, outage: true,
			patch: func(_ string, w http.ResponseWriter) bool { return refuse(w, http.StatusGatewayTimeout, "") }},
		"a webhook for every second object": {most: time.Hour, outage: true, stalled: true,
			patch: func(name string, w http.ResponseWriter) bool { return number(name)%2 == 1 && away(w) }},
		"a webhook that answers with errors": {most: 12 * time.Minute, stalled: true, inFlight: 1,
			patch: func(_ string, w http.ResponseWriter) bool {
				return refuse(w, http.StatusInternalServerError, "failed calling webhook")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, began, failing := &memoryCheckpoints{}, time.Now().Add(-time.Hour), false
				f := &scripted{n: n, resourceVersion: "1000"}
				f.patch = func(name string, w http.ResponseWriter) bool {
					time.Sleep(10 * time.Millisecond)
					if failing = failing || f.patches.Load() > n/3; failing && tt.patch(name, w) {
						return true
					}
					return false
				}
				agreement := func() (Epoch, error) {
					e := lastingFrom(began)
					e.CRDUID, e.CRDGeneration = "uid", 3
					if failing && tt.looks != nil {
						return Epoch{}, tt.looks
					}
					return e, nil
				}
				options := Options{Checkpoints: store, MaxInFlight: tt.inFlight, PageSize: 30}
				started := time.Now()
				result, err := virtualSweep(t, f, agreement, options).Run(t.Context())
				if took := time.Since(started); errors.Is(err, errOutage) != tt.outage ||
					errors.Is(err, ErrStalled) != tt.stalled || took > tt.most || result.Complete {
					t.Fatalf("it ended after %v with %+v, %v; want an outage %t, stalled %t, within %v", took,
						result.Counts, err, tt.outage, tt.stalled, tt.most)
				}
				tt.patch, tt.looks = func(string, http.ResponseWriter) bool { return false }, nil
				options.Resume = true
				result, err = virtualSweep(t, f, agreement, options).Run(t.Context())
				if err != nil || !result.Proven || result.Restarts != 0 || accounted(result) != n {
					t.Errorf("the next run ended with %+v, %v; want every object proven", result, err)
				}
			})
		})
	}
}

// Objects that no API server can answer about are named at the end, however few requests are in flight.
func TestAFewObjectsWithoutAnAnswerAreSetAside(t *testing.T) {
	for _, inFlight := range []int{1, 0} {
		synctest.Test(t, func(t *testing.T) {
			f := &scripted{n: 100, resourceVersion: "1000"}
			f.patch = func(name string, w http.ResponseWriter) bool {
				time.Sleep(10 * time.Millisecond)
				return strings.HasSuffix(name, "7") && len(name) == 3 && name < "o50" &&
					refuse(w, http.StatusGatewayTimeout, "timeout")
			}
			began := time.Now().Add(-time.Hour)
			agreement := func() (Epoch, error) { return lastingFrom(began), nil }
			result, err := virtualSweep(t, f, agreement, Options{MaxInFlight: inFlight}).Run(t.Context())
			if !errors.Is(err, ErrObjectsFailed) || len(result.Failures) != 4 || result.Counts.Rewritten != 96 ||
				result.Failures[0].Reason != Unreachable || strings.Contains(result.Failures[0].Message, "gave up") {
				t.Errorf("%d in flight: %+v, %v; want 4 objects without an answer", inFlight, result, err)
			}
		})
	}
}

// What no API server can read does not pass with time: the object is named at once, and a list ends the run at once.
func TestWhatNoAPIServerCanReadIsNotWaitedFor(t *testing.T) {
	const unreadable = `unable to transform key "/registry/configmaps/d/o7": no matching prefix found`
	for _, inList := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &scripted{n: 100, resourceVersion: "1000"}
			f.list = func(w http.ResponseWriter) bool {
				return inList && refuse(w, http.StatusInternalServerError, unreadable)
			}
			f.patch = func(name string, w http.ResponseWriter) bool {
				return name == "o7" && refuse(w, http.StatusInternalServerError, unreadable)
			}
			began := time.Now()
			agreement := func() (Epoch, error) { return lastingFrom(began.Add(-time.Hour)), nil }
			result, err := virtualSweep(t, f, agreement, Options{}).Run(t.Context())
			if inList {
				if !errors.Is(err, ErrNotReady) || time.Since(began) > time.Second {
					t.Errorf("the list ended after %v with %v, want ErrNotReady at once", time.Since(began), err)
				}
				return
			}
			if !errors.Is(err, ErrObjectsFailed) || result.Counts.Rewritten != 99 || result.Counts.Retried != 0 ||
				len(result.Failures) != 1 || result.Failures[0].Reason != Unreadable {
				t.Errorf("%+v, %v; want 99 rewritten and o7 unreadable", result, err)
			}
		})
	}
}

// A conversion webhook whose Service was deleted, or whose address is gone, does not come back by itself (I5). The texts
// are those of a real API server.
func TestAConversionWebhookThatIsGoneEndsTheRunAtOnce(t *testing.T) {
	for name, why := range map[string]string{
		"its Service was deleted": `Post "https://nosuch.default.svc:443/convert?timeout=30s": service "nosuch" not found`,
		"its host has no address": `Post "https://gone.invalid/convert?timeout=30s": dial tcp: lookup gone.invalid on ` +
			`10.255.255.53:53: no such host`,
		"its certificate is not valid": `Post "https://localhost:36771/convert?timeout=30s": tls: failed to verify ` +
			`certificate: x509: certificate has expired or is not yet valid`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, began, gone := &memoryCheckpoints{}, time.Now().Add(-time.Hour), true
				f := &scripted{n: 100, resourceVersion: "1000"}
				f.patch = func(_ string, w http.ResponseWriter) bool {
					time.Sleep(10 * time.Millisecond)
					return gone && f.patches.Load() > 30 && refuse(w, http.StatusInternalServerError,
						"object not decodable revision=217: conversion webhook for demo.example.com/v1, Kind=Widget failed: "+why)
				}
				agreement := func() (Epoch, error) { return lastingFrom(began), nil }
				started := time.Now()
				result, err := virtualSweep(t, f, agreement, Options{Checkpoints: store}).Run(t.Context())
				if took := time.Since(started); !errors.Is(err, ErrNotReady) || took > 30*time.Second || result.Counts.Failed != 0 {
					t.Fatalf("it ended after %v with %+v, %v; want ErrNotReady at once, and no object blamed", took,
						result.Counts, err)
				}
				for _, part := range []string{why, "correct spec.conversion of the CustomResourceDefinition configmaps."} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error does not say %q: %v", part, err)
					}
				}
				gone = false
				result, err = virtualSweep(t, f, agreement, Options{Checkpoints: store, Resume: true}).Run(t.Context())
				if err != nil || !result.Proven || accounted(result) != 100 {
					t.Errorf("the next run ended with %+v, %v; want every object proven", result, err)
				}
			})
		})
	}
}
