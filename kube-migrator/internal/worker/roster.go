// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The contents of the ConfigMap of a roster. Each key has one writer; both writers use the resourceVersion that they
// have read.
const (
	taskKey   = "task"   // JSON of Task, of the controller
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
	// Resource is the plural name of the resource that the run rewrites.
	Resource string `json:"resource"`
	// StartResourceVersion is that of the run: everything that the run relies on is newer.
	StartResourceVersion string `json:"startResourceVersion,omitempty"`
	// Given is when the controller wrote the task.
	Given time.Time `json:"given"`
}

// workerState is the part of a roster that the worker writes.
type workerState struct {
	// Process identifies the process that works: the newest pod of the Job. An older process that is still running
	// writes nothing more.
	Process string `json:"process,omitempty"`
	// Done is the number of the last task that the worker has ended. It writes nothing more for that task.
	Done int64 `json:"done,omitempty"`
	// Closed means that the worker accepts no further tasks.
	Closed bool `json:"closed,omitempty"`
}

// Roster is the ConfigMap through which the controller assigns runs to the worker of one Job, one after the other. The
// controller assigns a task only while the worker is idle, and the worker closes the roster only while it is idle. Both
// writes carry the resourceVersion that was read, so an assignment and a closing cannot cross.
type Roster struct {
	Task Task
	workerState
}

// ErrBusy reports that a roster accepts no task at the moment: the worker has one, or accepts no further tasks. Test
// with errors.Is.
var ErrBusy = errors.New("the worker takes no task")

// ReadRoster reads the roster in a ConfigMap.
func ReadRoster(cm *corev1.ConfigMap) (Roster, error) {
	var r Roster
	raw, ok := cm.Data[taskKey]
	if !ok {
		return r, fmt.Errorf("read roster %s: it has no task", cm.Name)
	}
	if err := json.Unmarshal([]byte(raw), &r.Task); err != nil {
		return r, fmt.Errorf("decode task in ConfigMap %s: %w", cm.Name, err)
	}
	if r.Task.Number <= 0 || r.Task.ConfigMap == "" || r.Task.Migration == "" || r.Task.UID == "" ||
		r.Task.Resource == "" {
		return r, fmt.Errorf("read roster %s: its task is incomplete", cm.Name)
	}
	if raw, ok := cm.Data[workerKey]; ok {
		if err := json.Unmarshal([]byte(raw), &r.workerState); err != nil {
			return r, fmt.Errorf("decode state of the worker in ConfigMap %s: %w", cm.Name, err)
		}
	}
	return r, nil
}

// Idle reports whether the worker has ended its last task, and so writes nothing more for it.
func (r Roster) Idle() bool { return r.Done >= r.Task.Number }

// Give writes the next task into the ConfigMap of a roster, or the first one into an empty ConfigMap. The caller sends
// it under the resourceVersion that it has read. The error is ErrBusy if the worker has not ended its last task or
// accepts no further tasks.
func Give(cm *corev1.ConfigMap, t Task) error {
	t.Number = 1
	if _, begun := cm.Data[taskKey]; begun {
		r, err := ReadRoster(cm)
		switch {
		case err != nil:
			return err
		case !r.Idle() || r.Closed:
			return fmt.Errorf("%w: roster %s", ErrBusy, cm.Name)
		}
		t.Number = r.Task.Number + 1
	}
	return put(cm, taskKey, t)
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
