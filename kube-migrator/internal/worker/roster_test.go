// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

func taskOf(migration string) Task {
	return Task{Migration: migration, UID: "uid", Generation: 1, Attempt: 1, ConfigMap: "run-of-" + migration,
		Resource: migration}
}

// rosterOf returns a roster whose first task is that of widgets.
func rosterOf(t *testing.T, state workerState) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "roster", ResourceVersion: "7"}}
	must(t, Give(cm, taskOf("widgets")))
	must(t, put(cm, workerKey, state))
	return cm
}

// Two sweeps would run at the same time otherwise, or a run would be given to a worker that does not read it (I8).
func TestAWorkerIsGivenARunOnlyWhileItIsIdle(t *testing.T) {
	for name, test := range map[string]struct {
		state workerState
		busy  bool
	}{
		"it has not begun":                     {workerState{}, true},
		"it is at its run":                     {workerState{Process: "a"}, true},
		"it has ended its run":                 {workerState{Process: "a", Done: 1}, false},
		"it has ended its run, and the worker": {workerState{Process: "a", Done: 1, Closed: true}, true},
	} {
		cm := rosterOf(t, test.state)
		before := cm.DeepCopy()
		err := Give(cm, taskOf("gadgets"))
		if errors.Is(err, ErrBusy) != test.busy || (err != nil) != test.busy {
			t.Errorf("%s: %v, busy is %t", name, err, test.busy)
		}
		if test.busy {
			if diff := cmp.Diff(before, cm); diff != "" {
				t.Errorf("%s: the roster has changed:\n%s", name, diff)
			}
			continue
		}
		if r, err := ReadRoster(cm); err != nil || r.Task.Number != 2 || r.Task.Migration != "gadgets" || r.Done != 1 {
			t.Errorf("%s: the roster is %+v (%v), want the second task", name, r, err)
		}
	}
}

// A pod that lives on after the Job has started another one must not end, close or take up the run of that one (I8).
func TestAnOlderProcessLeavesTheRosterToItsSuccessor(t *testing.T) {
	for name, act := range map[string]func(s *server) (Roster, error){
		"it ends its run":     func(s *server) (Roster, error) { return s.done(t.Context(), 1) },
		"it ends":             func(s *server) (Roster, error) { return s.close(t.Context()) },
		"it waits for a task": func(s *server) (Roster, error) { return s.next(t.Context()) },
	} {
		for _, process := range []string{"older", "newer"} {
			writes := 0
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet {
					writes++
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(rosterOf(t, workerState{Process: "newer"}))
			}))
			client, err := apiserver.NewClient(&rest.Config{Host: api.URL})
			must(t, err)
			s := &server{process: process, log: slog.New(slog.DiscardHandler), waits: timing{patience: time.Minute},
				desk: configMap{client: client, namespace: "default", name: "roster"}}
			s.Roster = "roster"
			_, err = act(s)
			api.Close()
			if process == "newer" && err != nil {
				t.Errorf("%s, and the roster is its own: %v", name, err)
			}
			if process == "older" && (!errors.Is(err, ErrOutdated) || writes > 0) {
				t.Errorf("%s: %v after %d writes, want %v and none", name, err, writes, ErrOutdated)
			}
		}
	}
}
