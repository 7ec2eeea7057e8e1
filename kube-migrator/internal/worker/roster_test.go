// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
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

// A run would be given to a worker that does not read it, or to one that has not ended it (I8).
func TestAWorkerIsGivenARunUntilItClosesItsRoster(t *testing.T) {
	for name, test := range map[string]struct {
		state workerState
		give  string
		want  []int64 // numbers of the open tasks after that
	}{
		"it has not begun":                       {workerState{}, "gadgets", []int64{1, 2}},
		"it is at its run":                       {workerState{Process: "a"}, "gadgets", []int64{1, 2}},
		"it has ended its run":                   {workerState{Process: "a", Ended: []int64{1}}, "gadgets", []int64{2}},
		"it is at this very run":                 {workerState{Process: "a"}, "widgets", []int64{1}},
		"it has ended this very run":             {workerState{Process: "a", Ended: []int64{1}}, "widgets", []int64{2}},
		"it has ended its run, and the worker":   {workerState{Process: "a", Ended: []int64{1}, Closed: true}, "gadgets", nil},
		"it has ended runs that are long gone":   {workerState{Process: "a", Ended: []int64{7, 8}}, "gadgets", []int64{1, 2}},
		"it has closed the roster before a task": {workerState{Process: "a", Closed: true}, "gadgets", nil},
	} {
		cm := rosterOf(t, test.state)
		before := cm.DeepCopy()
		err := Give(cm, taskOf(test.give))
		if closed := test.want == nil; errors.Is(err, ErrClosed) != closed || (err != nil) != closed {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil {
			if diff := cmp.Diff(before, cm); diff != "" {
				t.Errorf("%s: the roster has changed:\n%s", name, diff)
			}
			continue
		}
		r, err := ReadRoster(cm)
		var open []int64
		for _, task := range r.Open() {
			open = append(open, task.Number)
		}
		if err != nil || !slices.Equal(open, test.want) || !r.Has("run-of-"+test.give) {
			t.Errorf("%s: the roster is %+v (%v), want the tasks %v", name, r, err, test.want)
		}
	}
}

// What is at work must not be forgotten (I8), and what no worker is at must not wait for one.
func TestARunIsStoppedByItsWorkerOrAtOnceWhereThereIsNone(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	before := now.Add(-time.Minute)
	for name, test := range map[string]struct {
		state   workerState
		stopped bool // before
		over    bool
		told    time.Time // zero: the task is not open any more
		changed bool
	}{
		"its worker is told": {state: workerState{Process: "a"}, told: now, changed: true},
		"once":               {state: workerState{Process: "a"}, stopped: true, told: before},
		"a worker that has never begun has not read it":    {changed: true},
		"one that has no pods any more writes nothing":     {state: workerState{Process: "a"}, over: true, changed: true},
		"nor does one that was told before":                {state: workerState{Process: "a"}, stopped: true, over: true, changed: true},
		"what has ended needs nothing":                     {state: workerState{Process: "a", Ended: []int64{1}}},
		"nor does what has ended in a worker that is gone": {state: workerState{Process: "a", Ended: []int64{1}}, over: true},
	} {
		cm := rosterOf(t, workerState{Process: "a"})
		if test.stopped {
			if _, _, err := Stop(cm, "run-of-widgets", false, before); err != nil {
				t.Fatal(err)
			}
		}
		must(t, put(cm, workerKey, test.state))
		told, changed, err := Stop(cm, "run-of-widgets", test.over, now)
		r, _ := ReadRoster(cm)
		if err != nil || changed != test.changed || r.Has("run-of-widgets") != !test.told.IsZero() ||
			!told.Equal(test.told) || !told.IsZero() && !r.Tasks[0].Stop.Equal(told) {
			t.Errorf("%s: changed %t, told at %s, the roster is %+v (%v)", name, changed, told, r, err)
		}
	}
	other := rosterOf(t, workerState{Process: "a"})
	if _, changed, err := Stop(other, "run-of-gadgets", true, now); changed || err != nil {
		t.Errorf("a run that was never given: changed %t (%v)", changed, err)
	}
}

// A pod that lives on after the Job has started another one must not end, close or take up the run of that one (I8).
func TestAnOlderProcessLeavesTheRosterToItsSuccessor(t *testing.T) {
	for name, act := range map[string]func(s *server) (Roster, error){
		"it ends its run":     func(s *server) (Roster, error) { return s.done(t.Context(), 1) },
		"it ends":             func(s *server) (Roster, error) { return s.close(t.Context()) },
		"it waits for a task": func(s *server) (Roster, error) { return s.read(t.Context(), Roster{}) },
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
