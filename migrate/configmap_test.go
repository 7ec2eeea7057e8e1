// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build go1.25

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// oneConfigMap is an API server with at most one ConfigMap, "checkpoints".
type oneConfigMap struct {
	object  *corev1.ConfigMap
	version int
	after   func(w http.ResponseWriter) bool // answers in place of a write that has happened
	forbids bool
}

func (s *oneConfigMap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	}
	var sent corev1.ConfigMap
	if r.Method != http.MethodGet && json.NewDecoder(r.Body).Decode(&sent) != nil {
		fail(http.StatusBadRequest, "BadRequest")
		return
	}
	switch {
	case s.forbids && r.Method != http.MethodGet:
		fail(http.StatusForbidden, "Forbidden")
		return
	case r.Method == http.MethodPost && s.object != nil:
		fail(http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && s.object == nil:
		fail(http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut && sent.ResourceVersion != s.object.ResourceVersion:
		fail(http.StatusConflict, "Conflict")
		return
	case r.Method != http.MethodGet:
		s.version++
		s.object = &sent
		s.object.ResourceVersion = strconv.Itoa(s.version)
		if after := s.after; after != nil {
			if s.after = nil; after(w) {
				return
			}
		}
	}
	_ = json.NewEncoder(w).Encode(s.object)
}

func (s *oneConfigMap) store(t *testing.T) Checkpoints {
	t.Helper()
	store, err := ConfigMapCheckpoints(&rest.Config{Host: "http://in.process", Transport: inProcess{s}}, "ns", "checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// numbered is a checkpoint that can be told from others.
func numbered(t *testing.T, n int64) Checkpoint {
	t.Helper()
	c, err := (&checkpoint{Version: checkpointVersion, Resource: "widgets", Total: n}).encode()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// total is what a sweep of another process loads.
func (s *oneConfigMap) total(t *testing.T) int64 {
	t.Helper()
	data, err := s.store(t).Load(t.Context())
	if err != nil || data == nil {
		t.Fatalf("loaded %d bytes (%v)", len(data), err)
	}
	c, err := ReadCheckpoint(data)
	if err != nil {
		t.Fatal(err)
	}
	return c.Summary.Total
}

func TestAConfigMapHasTheLastCheckpointOfOneProcess(t *testing.T) {
	for name, test := range map[string]struct {
		between func(t *testing.T, s *oneConfigMap) // the first and the second save
		want    int64
		err     error
	}{
		"each save replaces the one before":             {func(*testing.T, *oneConfigMap) {}, 2, nil},
		"a ConfigMap that was deleted is created again": {func(_ *testing.T, s *oneConfigMap) { s.object = nil }, 2, nil},
		"a save whose answer was lost is not taken for that of another process": {func(_ *testing.T, s *oneConfigMap) {
			s.after = func(w http.ResponseWriter) bool { return refuse(w, http.StatusGatewayTimeout, "timeout") }
		}, 2, nil},
		"the save of another process is kept, and ends this sweep": {func(t *testing.T, s *oneConfigMap) {
			if err := s.store(t).Save(t.Context(), numbered(t, 7)); err != nil {
				t.Fatal(err)
			}
		}, 7, ErrCheckpointTaken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := new(oneConfigMap)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				store := s.store(t)
				if data, err := store.Load(ctx); data != nil || err != nil {
					t.Fatalf("loaded %q (%v), want nothing", data, err)
				}
				if err := store.Save(ctx, numbered(t, 1)); err != nil {
					t.Fatal(err)
				}
				test.between(t, s)
				if err := store.Save(ctx, numbered(t, 2)); !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if got := s.total(t); got != test.want {
					t.Errorf("checkpoint %d is stored, want %d", got, test.want)
				}
			})
		})
	}
}

func TestASaveWithoutPermissionFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := (&oneConfigMap{forbids: true}).store(t).Save(t.Context(), numbered(t, 1))
		if took := time.Since(began); !apierrors.IsForbidden(err) || took != 0 {
			t.Errorf("error %v after %v, want the refusal at once", err, took)
		}
	})
}
