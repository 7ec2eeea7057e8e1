// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The contents of the ConfigMap of a roster. Each key has one writer; both writers use the resourceVersion that they
// have read.
const (
	tasksKey  = "tasks"  // JSON of []Task, of the controller
	workerKey = "worker" // JSON of workerState, of the worker
)

// Task is one run that the controller assigns to a worker.
type Task struct {
	// Number counts the tasks of one roster, beginning with 1. If a worker ended a run without an outcome and the run
	// is assigned again, it gets a new number.
	Number int64 `json:"number"`
	// Migration and UID identify the StorageVersionMigration, and Generation is its spec.generation. Attempt counts the
	// runs of the generation.
	Migration  string    `json:"migration"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	Attempt    int64     `json:"attempt"`
	// ConfigMap is the name of the run's checkpoint, in the namespace of the roster.
	ConfigMap string `json:"configMap"`
	// Resource is the full name of the resource that the run rewrites.
	Resource string `json:"resource"`
	// StartResourceVersion is that of the run: everything that the run relies on is newer.
	StartResourceVersion string `json:"startResourceVersion,omitempty"`
	// Given is when the controller wrote the task.
	Given time.Time `json:"given"`
	// Stop is when the controller told the worker to end the task: it finishes the requests in flight and keeps the
	// checkpoint. It is zero if the task is wanted.
	Stop time.Time `json:"stop,omitzero"`
}

// workerState is the part of a roster that the worker writes.
type workerState struct {
	// Process identifies the process that works: the newest pod of the Job. An older process that is still running
	// writes nothing more.
	Process string `json:"process,omitempty"`
	// Ended are the numbers of the tasks that the worker has ended. It writes nothing more for them.
	Ended []int64 `json:"ended,omitempty"`
	// Closed means that the worker accepts no further tasks.
	Closed bool `json:"closed,omitempty"`
}

// Roster is the ConfigMap through which the controller assigns runs to the worker of one Job, which carries out several
// at the same time. The worker closes the roster only while it has no task. All writes carry the resourceVersion that
// was read, so an assignment and a closing cannot cross.
type Roster struct {
	Tasks []Task
	workerState
}

// ErrClosed reports that the worker accepts no further tasks. Test with errors.Is.
var ErrClosed = errors.New("the worker takes no task")

// ReadRoster reads the roster in a ConfigMap.
func ReadRoster(cm *corev1.ConfigMap) (Roster, error) {
	var r Roster
	raw, ok := cm.Data[tasksKey]
	if !ok {
		return r, fmt.Errorf("read roster %s: it has no tasks", cm.Name)
	}
	if err := json.Unmarshal([]byte(raw), &r.Tasks); err != nil {
		return r, fmt.Errorf("decode tasks in ConfigMap %s: %w", cm.Name, err)
	}
	for _, t := range r.Tasks {
		if t.Number <= 0 || t.ConfigMap == "" || t.Migration == "" || t.UID == "" || t.Resource == "" {
			return r, fmt.Errorf("read roster %s: a task is incomplete", cm.Name)
		}
	}
	if raw, ok := cm.Data[workerKey]; ok {
		if err := json.Unmarshal([]byte(raw), &r.workerState); err != nil {
			return r, fmt.Errorf("decode state of the worker in ConfigMap %s: %w", cm.Name, err)
		}
	}
	return r, nil
}

// Open returns the tasks that the worker has not ended: it may write for them.
func (r Roster) Open() []Task {
	return slices.DeleteFunc(slices.Clone(r.Tasks), func(t Task) bool { return slices.Contains(r.Ended, t.Number) })
}

// Has reports whether the worker was assigned the run with this checkpoint and has not ended it.
func (r Roster) Has(configMap string) bool {
	return slices.ContainsFunc(r.Open(), func(t Task) bool { return t.ConfigMap == configMap })
}

// Give adds a task to the ConfigMap of a roster, or to an empty ConfigMap. The caller sends it under the
// resourceVersion that it has read. The error is ErrClosed if the worker accepts no further tasks. A run that the worker
// has not ended is not assigned again.
func Give(cm *corev1.ConfigMap, t Task) error {
	var r Roster
	if _, begun := cm.Data[tasksKey]; begun {
		var err error
		if r, err = ReadRoster(cm); err != nil {
			return err
		}
	}
	switch {
	case r.Closed:
		return fmt.Errorf("%w: roster %s", ErrClosed, cm.Name)
	case r.Has(t.ConfigMap):
		return nil
	}
	t.Number = 1
	for _, other := range r.Tasks {
		t.Number = max(t.Number, other.Number+1)
	}
	return put(cm, tasksKey, append(r.Open(), t))
}

// Stop tells the worker to end a task, and returns since when it has been told. The caller sends it under the
// resourceVersion that it has read, if the ConfigMap has changed. A task that no process has read, or for which none can
// write any more (over), ends at once.
func Stop(cm *corev1.ConfigMap, configMap string, over bool, now time.Time) (told time.Time, changed bool, err error) {
	r, err := ReadRoster(cm)
	if err != nil {
		return time.Time{}, false, err
	}
	i := slices.IndexFunc(r.Tasks, func(t Task) bool {
		return t.ConfigMap == configMap && !slices.Contains(r.Ended, t.Number)
	})
	switch {
	case i < 0:
		return time.Time{}, false, nil
	case over || r.Process == "":
		r.Tasks = slices.Delete(r.Tasks, i, i+1)
	case !r.Tasks[i].Stop.IsZero():
		return r.Tasks[i].Stop, false, nil
	default:
		r.Tasks[i].Stop, told = now, now
	}
	return told, true, put(cm, tasksKey, r.Tasks)
}

func put(cm *corev1.ConfigMap, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	data := map[string]string{key: string(raw)}
	for k, v := range cm.Data {
		if k != key {
			data[k] = v
		}
	}
	cm.Data = data
	return nil
}
