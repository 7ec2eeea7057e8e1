// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message}}
}

func TestEveryAnswerHasAClassAndEveryFailureAReason(t *testing.T) {
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	tests := map[string]struct {
		err    error
		class  class
		reason Reason
	}{
		"too many requests ask for less": {apierrors.NewTooManyRequests("slow down", 3),
			throttled, Unreachable},
		"an unavailable server asks for less": {status(http.StatusServiceUnavailable, "", "down"),
			throttled, Unreachable},
		"a cut connection is no answer": {fmt.Errorf("patch: %w",
			io.ErrUnexpectedEOF), lost, Unreachable},
		"a request that took too long is no answer": {context.DeadlineExceeded, lost, Unreachable},
		"a gateway that gave up is no answer": {status(http.StatusGatewayTimeout, "",
			"timeout"), lost, Unreachable},
		"a webhook that does not answer is the server's": {
			apierrors.NewInternalError(errors.New("failed calling webhook")), faulty, ServerError,
		},
		"a conversion webhook that is away is no answer": {
			apierrors.NewInternalError(
				errors.New(`conversion webhook for demo.example.com/v1, Kind=Widget failed: Post "https://x": EOF`),
			), lost, Unreachable,
		},
		"a conversion webhook that is away while an object is read is no answer": {
			apierrors.NewInternalError(errors.New("StorageError: corrupt object, Code: 7, Key: /x, ResourceVersion: 0, " +
				"AdditionalErrorMsg: object not decodable revision=217: conversion webhook for demo.example.com/v1, " +
				`Kind=Widget failed: Post "https://x": dial tcp 127.0.0.1:1: connect: connection refused`)), lost, Unreachable,
		},
		"a conversion webhook whose Service is gone does not come back": {
			apierrors.NewInternalError(errors.New("StorageError: corrupt object, Code: 7, Key: /x, ResourceVersion: 0, " +
				"AdditionalErrorMsg: object not decodable revision=217: conversion webhook for demo.example.com/v1, " +
				`Kind=Widget failed: Post "https://x.d.svc:443/c?timeout=30s": service "x" not found`)), unready, Unreachable,
		},
		"a conversion webhook's answer while an object is read is about the object": {
			apierrors.NewInternalError(errors.New("StorageError: corrupt object, Code: 7, Key: /x, ResourceVersion: 0, " +
				"AdditionalErrorMsg: object not decodable revision=217: conversion webhook for demo.example.com/v1, " +
				"Kind=Widget failed: no color")), faulty, ServerError,
		},
		"an object in a version that the CRD does not have stays unreadable": {status(http.StatusInternalServerError, "",
			"object not decodable revision=217: request to convert CR from an invalid group/version: s.example.com/v1"),
			rejected, Unreadable},
		"a conversion webhook's answer is about the object": {
			apierrors.NewInternalError(
				errors.New(`conversion webhook for demo.example.com/v1, Kind=Widget failed: no color`),
			), faulty, ServerError,
		},
		"an object without its encryption key stays unreadable": {apierrors.NewInternalError(errors.New(
			`Internal error occurred: no matching prefix found`)), rejected, Unreadable},
		"a corrupt object stays unreadable": {apierrors.NewInternalError(errors.New(
			`data from the storage is not transformable revision=0: invalid padding`)), rejected, Unreadable},
		"an object that is too large for etcd stays so": {status(http.StatusInternalServerError, "",
			"etcdserver: request is too large"), rejected, Unreadable},
		"an answer that is no metadata is the server's": {fmt.Errorf("%w: HTML", errMalformed), faulty, ServerError},
		"a conflict says nothing about what is stored": {apierrors.NewConflict(widgets, "a", errors.New("moved")),
			conflict, Conflicting},
		"a 404 has to be looked into": {apierrors.NewNotFound(widgets, "a"), missing, Orphaned},
		"a validation error stays": {status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"spec.size"), rejected, Rejected},
		"a webhook's denial is a rejection": {apierrors.NewForbidden(widgets, "a",
			errors.New(`admission webhook "w" denied the request`)), rejected, Rejected},
		"the guard's refusal is one of its own": {apierrors.NewForbidden(widgets, "a", errors.New(
			`ValidatingAdmissionPolicy 'kube-migrator-worker' with binding 'kube-migrator-worker' denied request: `+
				GuardRefusal+`: a webhook adds to it`)), rejected, WouldChange},
		"another policy's denial is a rejection": {status(http.StatusServiceUnavailable, "",
			`widgets "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`), rejected,
			Rejected},
		"words of the guard in another denial are a rejection": {apierrors.NewForbidden(widgets, "a",
			errors.New(`admission webhook "w" denied the request: `+GuardRefusal)), rejected, Rejected},
		"a missing permission is one": {status(http.StatusForbidden,
			metav1.StatusReasonForbidden, `widgets "a" is forbidden: User "eve" cannot patch resource "widgets"`),
			rejected, Forbidden},
		"an expired token ends everything": {apierrors.NewUnauthorized("who are you"), refused,
			Rejected},
		"an expired continue token goes on from the same key": {apierrors.NewResourceExpired("too old"), expired,
			Rejected},
		"our own end is not the server's": {context.Canceled, cancelled, Unreachable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := classify(test.err)
			if got != test.class {
				t.Errorf("class = %d, want %d", got, test.class)
			}
			if reason := reasonOf(test.err, got); reason != test.reason {
				t.Errorf("reason = %s, want %s", reason, test.reason)
			}
		})
	}
}

func TestARefusalWithoutRetryAfterWaitsASecond(t *testing.T) {
	if got := retryAfter(apierrors.NewTooManyRequests("", 7), throttled); got != 7*time.Second {
		t.Errorf("retryAfter = %v, want the server's 7 s", got)
	}
	if got := retryAfter(status(http.StatusServiceUnavailable, "", ""), throttled); got != time.Second {
		t.Errorf("retryAfter = %v, want 1 s", got)
	}
	denial := apierrors.NewTooManyRequests(`admission webhook "w" denied the request: no`, 1<<31-1)
	if got := retryAfter(denial, classify(denial)); got != 0 {
		t.Errorf("retryAfter = %v, want nothing after a webhook's denial", got)
	}
	if got := retryAfter(io.EOF, lost); got != 0 {
		t.Errorf("retryAfter = %v, want nothing after a lost answer", got)
	}
}

func TestWhatAnEarlierEpochWroteStaysKnown(t *testing.T) {
	first := Epoch{Hash: "v2", Servers: []string{"a"}, Evidence: Observed}
	restarted := Epoch{Hash: "v2", Servers: []string{"b"}, Evidence: Observed}
	other := Epoch{Hash: "v3", Servers: []string{"c"}, Evidence: Observed}
	back := Epoch{Hash: "v2", Servers: []string{"d"}, Evidence: Observed}
	at := func(rv string) object { return object{resourceVersion: rv} }

	var c checkpoint
	c.begin(first)
	c.Baseline, c.Confirmed = 100, 200
	c.Counts = Counts{Rewritten: 7, Current: 2, Failed: 1, Retried: 3, ThroughStatus: 2}
	c.Failures = []Failure{{Name: "x"}}
	if c.current(at("100")) || !c.current(at("101")) || !c.current(at("9000")) {
		t.Error("in its epoch, current is what is newer than the baseline, without end")
	}

	c.begin(restarted)
	c.Baseline, c.Confirmed = 300, 300
	if diff := compare.Diff([]goodRange{{Hash: "v2", From: 100, To: 200}}, c.Ranges); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	for rv, want := range map[string]bool{"100": false, "101": true, "200": true, "201": false, "300": false,
		"301": true, "": false, "x": false} {
		if got := c.current(at(rv)); got != want {
			t.Errorf("after the restart, current(%q) = %v, want %v", rv, got, want)
		}
	}
	if diff := compare.Diff(Counts{RewrittenBefore: 7, Retried: 3, ThroughStatus: 2}, c.Counts); diff != "" ||
		c.Failures != nil || c.Restarts != 1 {
		t.Errorf("the new pass starts to count again (-want +got):\n%s", diff)
	}

	c.begin(other)
	c.Baseline, c.Confirmed = 400, 500
	if c.current(at("150")) || c.current(at("450")) != true {
		t.Error("a range of another hash proves nothing")
	}
	c.begin(back)
	c.Baseline = 600
	if !c.current(at("150")) || c.current(at("450")) {
		t.Error("the range of the hash that came back counts again, and only that")
	}
}

func TestASampledEpochLeavesNoGoodRange(t *testing.T) {
	var c checkpoint
	c.begin(Epoch{Hash: "v2", Evidence: Sampled})
	c.Baseline, c.Confirmed = 100, 200
	if c.current(object{resourceVersion: "150"}) {
		t.Error("a sample skips nothing: it may have missed a server")
	}
	c.begin(Epoch{Hash: "v2", Servers: []string{"b"}, Evidence: Observed})
	if len(c.Ranges) != 0 {
		t.Errorf("ranges = %v, want none", c.Ranges)
	}
}

func TestPagesAreSizedByBytes(t *testing.T) {
	var z pageSizer
	if got := z.limit(); got != firstPageObjects {
		t.Errorf("first page = %d objects, want %d", got, firstPageObjects)
	}
	z.saw(page{objects: make([]object, 100), bytes: 100 * 300})
	if got := z.limit(); got != maxPageObjects {
		t.Errorf("page of small objects = %d, want %d", got, maxPageObjects)
	}
	z.saw(page{objects: make([]object, 10), bytes: 10 * pageBytes})
	if got := z.limit(); got != 1 {
		t.Errorf("page of huge objects = %d, want 1", got)
	}
	z = pageSizer{}
	for limit := z.limit(); limit > 1; limit = z.limit() {
		z.sawTooLarge(limit)
		if z.limit() >= limit {
			t.Fatalf("after a page of %d was too large, the next asks for %d", limit, z.limit())
		}
	}
	z = pageSizer{fixed: 30}
	z.saw(page{objects: make([]object, 30), bytes: 30 * 300})
	if got := z.limit(); got != 30 {
		t.Errorf("page of a fixed size = %d, want 30", got)
	}
	z.sawTooLarge(30)
	if got := z.limit(); got >= 30 {
		t.Errorf("a fixed size that is too large stays %d", got)
	}
}

func TestFailuresBeyondTheBoundAreCounted(t *testing.T) {
	var c checkpoint
	c.fail(make([]Failure, maxFailures-1))
	c.fail(make([]Failure, 3))
	if len(c.Failures) != maxFailures || c.FailuresOmitted != 2 {
		t.Errorf("%d named, %d counted; want %d and 2", len(c.Failures), c.FailuresOmitted, maxFailures)
	}
}

func TestEvidenceIsReadAsItIsWritten(t *testing.T) {
	for _, e := range []Evidence{0, Sampled, Observed, Declared} {
		text, err := e.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Evidence
		if err := back.UnmarshalText(text); err != nil || back != e {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
	}
	if err := new(Evidence).UnmarshalText([]byte("Guessed")); err == nil {
		t.Error("an unknown word was taken")
	}
}

func TestWhatTheServerDidToAnObjectOnItsOwnAccountIsCounted(t *testing.T) {
	listed := object{uid: "u", resourceVersion: "10", generation: 1, owners: 7, labels: 3}
	const changed, dropped = 1, 2
	for name, tt := range map[string]struct {
		listed object
		edit   func(o *object)
		want   int
	}{
		"nothing":                    {listed, func(*object) {}, 0},
		"admission changed the spec": {listed, func(o *object) { o.generation = 2 }, changed},
		"admission changed labels":   {listed, func(o *object) { o.labels = 4 }, changed},
		"admission labelled an object without a generation": {object{uid: "u", resourceVersion: "10", owners: 7,
			labels: 3}, func(o *object) { o.labels = 4 }, changed},
		"a client changed the spec at the same moment": {listed, func(o *object) { o.generation, o.owners = 2, 8 }, 0},
		"a client labelled it at the same moment":      {listed, func(o *object) { o.labels, o.owners = 4, 8 }, 0},
		"it was deleted and created again": {listed,
			func(o *object) { o.uid, o.generation, o.owners = "v", 2, 0 }, 0},
		"without managedFields it may have been either": {object{uid: "u", resourceVersion: "10", generation: 1},
			func(o *object) { o.generation = 2 }, changed},
		"it became too large with its managedFields": {listed, func(o *object) { o.owners = 0 }, dropped},
	} {
		after := tt.listed
		after.resourceVersion = "11"
		tt.edit(&after)
		got := outcome(tt.listed, after)
		want := Counts{Rewritten: 1, ChangedByAdmission: int64(tt.want & changed),
			ManagedFieldsDropped: int64(tt.want & dropped / dropped)}
		if diff := compare.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := outcome(listed, listed); got != (Counts{Current: 1}) {
		t.Errorf("an object that did not move counts as %+v", got)
	}
}
