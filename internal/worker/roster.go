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

// What the ConfigMap of a roster holds. Each key has one writer; both write under the resourceVersion that they have
// read.
const (
	taskKey   = "task"   // JSON of Task, of the controller
	workerKey = "worker" // JSON of workerState, of the worker
)

// Task is one run that a worker is given.
type Task struct {
	// Number counts the tasks of one roster from 1. A run that is given again, because its worker ended it without an
	// outcome, has another number.
	Number int64 `json:"number"`
	// Migration and UID name the StorageVersionMigration, Generation is its spec.generation; Attempt counts the runs of
	// the generation.
	Migration  string    `json:"migration"`
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation"`
	Attempt    int64     `json:"attempt"`
	// ConfigMap is the name of the run's checkpoint, in the namespace of the roster.
	ConfigMap string `json:"configMap"`
	// Resource is the plural name of what the run rewrites.
	Resource string `json:"resource"`
	// StartResourceVersion is that of the run: nothing that it rests on is older.
	StartResourceVersion string `json:"startResourceVersion,omitempty"`
	// Given is when the controller wrote the task.
	Given time.Time `json:"given"`
}

// workerState is what the worker says of itself.
type workerState struct {
	// Process names the process that works: the newest pod of the Job. Another one that still lives writes nothing
	// more.
	Process string `json:"process,omitempty"`
	// Done is the number of the last task that the worker has ended: it writes nothing more for it.
	Done int64 `json:"done,omitempty"`
	// Closed: the worker takes no task any more.
	Closed bool `json:"closed,omitempty"`
}

// Roster is the ConfigMap through which the controller gives the worker of one Job one run after the other. A task is
// given only while the worker is idle, and the roster is closed only while it is idle. Each such write carries the
// resourceVersion that was read, so a task that is given and an end cannot cross.
type Roster struct {
	Task Task
	workerState
}

// ErrBusy says that a roster takes no task now: the worker has one, or takes none any more. Test with errors.Is.
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

// Idle reports whether the worker has ended its last task: nothing is written for that any more.
func (r Roster) Idle() bool { return r.Done >= r.Task.Number }

// Give writes the next task into the ConfigMap of a roster, or the first one into an empty ConfigMap. The caller sends
// it under the resourceVersion that it has read. The error is ErrBusy where the worker has not ended its last task, or
// takes none any more.
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
