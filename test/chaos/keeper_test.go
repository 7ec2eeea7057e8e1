// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// keeper does what kube-controller-manager and a kubelet do for Jobs: it runs the worker of each Job as a process, one
// at a time, starts another when one fails, says in the Job's status what it has done, lets a Job go when its worker
// has ended, and collects garbage.
type keeper struct {
	lab *lab

	mu      sync.Mutex
	workers map[string]*worker // by UID of the Job
	number  int
}

// worker is what the keeper knows of one Job's worker.
type worker struct {
	name    string // of the present process
	program *testbed.Program
	line    *line
	failed  int
	again   time.Time // not before
	ending  bool
}

const (
	jobsPath       = "/apis/batch/v1/namespaces/" + installation + "/jobs"
	configMapsPath = "/api/v1/namespaces/" + installation + "/configmaps"
	migrationsPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	// grace is how long a worker may take to end.
	grace = 20 * time.Second
)

// job is what of a Job the keeper needs.
type job struct {
	Metadata struct {
		Name              string    `json:"name"`
		UID               string    `json:"uid"`
		DeletionTimestamp *string   `json:"deletionTimestamp"`
		Owners            []ownedBy `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		Suspend  bool `json:"suspend"`
		Template struct {
			Spec struct {
				Containers []struct {
					Args []string `json:"args"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
	Status struct {
		Active     int         `json:"active"`
		StartTime  string      `json:"startTime"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

type ownedBy struct {
	UID string `json:"uid"`
}

type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	LastProbeTime      string `json:"lastProbeTime,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
	Reason             string `json:"reason,omitempty"`
	Message            string `json:"message,omitempty"`
}

func (j *job) is(name string) bool {
	return slices.ContainsFunc(j.Status.Conditions,
		func(c condition) bool { return c.Type == name && c.Status == "True" })
}

// keep does all this until the context ends, and then ends all workers.
func (k *keeper) keep(ctx context.Context) {
	for n := 0; wait(ctx, 250*time.Millisecond); n++ {
		var all struct{ Items []job }
		if !k.list(ctx, jobsPath, &all) {
			continue // workers go on, as pods do
		}
		k.mu.Lock()
		for i := range all.Items {
			k.see(ctx, &all.Items[i])
		}
		for uid, w := range k.workers {
			if !slices.ContainsFunc(all.Items, func(j job) bool { return j.Metadata.UID == uid }) {
				if k.end(w); w.program == nil {
					delete(k.workers, uid)
				}
			}
		}
		k.mu.Unlock()
		if n%12 == 0 {
			k.collect(ctx)
		}
	}
	k.killAll()
}

// killAll ends all workers at once.
func (k *keeper) killAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.program != nil {
			w.program.Kill()
			k.left(w)
		}
	}
}

// see does for one Job what is to be done.
func (k *keeper) see(ctx context.Context, j *job) {
	w := k.workers[j.Metadata.UID]
	if w == nil {
		w = &worker{}
		k.workers[j.Metadata.UID] = w
	}
	ended := w.program != nil && !w.program.Running()
	succeeded := ended && w.program.Succeeded()
	if ended {
		fmt.Fprintf(k.lab.log, "%s %s ended: %s\n", time.Now().Format("15:04:05.000"), w.name, w.program.Exit())
		k.left(w)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	switch {
	case j.Metadata.DeletionTimestamp != nil:
		if k.end(w); w.program == nil {
			roster := configMapsPath + "/" + j.Metadata.Name + "-roster"
			k.lab.ask(ctx, http.MethodDelete, roster, nil)                 //nolint:errcheck // again next time
			k.lab.ask(ctx, http.MethodPatch, jobsPath+"/"+j.Metadata.Name, //nolint:errcheck // again next time
				map[string]any{"metadata": map[string]any{"finalizers": nil}})
		}
	case j.is("Complete"), j.is("Failed"):
	case succeeded && !j.Spec.Suspend:
		k.status(ctx, j, map[string]any{
			"active": 0, "ready": 0, "terminating": 0, "succeeded": 1, "failed": w.failed, "completionTime": now,
			"startTime": cmp.Or(j.Status.StartTime, now),
			"conditions": append(j.Status.Conditions,
				condition{Type: "SuccessCriteriaMet", Status: "True", LastProbeTime: now, LastTransitionTime: now,
					Reason: "CompletionsReached"},
				condition{Type: "Complete", Status: "True", LastProbeTime: now, LastTransitionTime: now,
					Reason: "CompletionsReached"}),
		})
	case j.Spec.Suspend:
		if k.end(w); w.program == nil && !j.is("Suspended") {
			others := slices.DeleteFunc(j.Status.Conditions, func(c condition) bool { return c.Type == "Suspended" })
			k.status(ctx, j, map[string]any{"active": 0, "ready": 0, "terminating": 0, "failed": w.failed,
				"startTime": nil, "conditions": append(others,
					condition{Type: "Suspended", Status: "True", LastProbeTime: now, LastTransitionTime: now,
						Reason: "JobSuspended"})})
		}
	case ended:
		w.failed++
		w.again = time.Now().Add(time.Second)
		fallthrough
	case w.program == nil:
		if time.Now().Before(w.again) || len(j.Spec.Template.Spec.Containers) == 0 {
			return
		}
		if k.launch(w, j); j.Status.Active != 1 || ended {
			status := map[string]any{"active": 1, "ready": 1, "terminating": 0, "failed": w.failed,
				"startTime": cmp.Or(j.Status.StartTime, now)}
			if j.is("Suspended") {
				others := slices.DeleteFunc(j.Status.Conditions,
					func(c condition) bool { return c.Type == "Suspended" })
				status["conditions"] = append(others, condition{Type: "Suspended", Status: "False", LastProbeTime: now,
					LastTransitionTime: now, Reason: "JobResumed"})
			}
			k.status(ctx, j, status)
		}
	}
}

func (k *keeper) status(ctx context.Context, j *job, status map[string]any) {
	code, answer, err := k.lab.ask(ctx, http.MethodPatch, jobsPath+"/"+j.Metadata.Name+"/status",
		map[string]any{"status": status})
	if err == nil && code == http.StatusUnprocessableEntity {
		k.lab.note("the status of Job %s is refused: %s", j.Metadata.Name, answer)
	}
}

// launch starts a process for a Job, in the place of a pod.
func (k *keeper) launch(w *worker, j *job) {
	n := k.lab.newLine()
	if n == nil {
		return
	}
	kubeconfig, err := n.kubeconfig()
	if err != nil {
		k.lab.t.Errorf("write kubeconfig: %v", err)
		return
	}
	k.number++
	name := fmt.Sprintf("worker-%d", k.number)
	w.name, w.line, w.ending = name, n, false
	n.worker.Store(&name)
	w.program, err = k.lab.cluster.Launch(testbed.ProgramOptions{
		Name: "worker", Path: binary, Args: j.Spec.Template.Spec.Containers[0].Args, Group: productGroup,
		Env: []string{"KUBECONFIG=" + kubeconfig, n.clock.Env()},
	})
	if err != nil {
		k.lab.t.Errorf("start worker: %v", err)
		k.left(w)
	}
}

// left notes that the process of a worker has ended: whatever still comes on its line is not its doing any more.
func (k *keeper) left(w *worker) {
	if w.line != nil {
		w.line.leave()
	}
	w.program, w.line, w.ending = nil, nil, false
}

// end ends a worker as a kubelet ends a pod. It returns at once.
func (k *keeper) end(w *worker) {
	if w.program == nil {
		return
	}
	if !w.program.Running() {
		k.left(w)
		return
	}
	if w.ending {
		return
	}
	w.ending = true
	program := w.program
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		program.Terminate(ctx)
	}()
}

// present are the processes that run.
func (k *keeper) present() (all []present) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(k.workers)) {
		if w := k.workers[uid]; w.program != nil && w.program.Running() {
			all = append(all, present{w.program, w.line})
		}
	}
	return all
}

// collect deletes the ConfigMaps whose owners are gone.
func (k *keeper) collect(ctx context.Context) {
	var owned, jobs, migrations struct{ Items []job }
	if !k.list(ctx, configMapsPath, &owned) || !k.list(ctx, jobsPath, &jobs) ||
		!k.list(ctx, migrationsPath, &migrations) {
		return
	}
	alive := map[string]bool{}
	for _, o := range slices.Concat(jobs.Items, migrations.Items) {
		alive[o.Metadata.UID] = true
	}
	for _, c := range owned.Items {
		gone := len(c.Metadata.Owners) > 0 && !slices.ContainsFunc(c.Metadata.Owners,
			func(o ownedBy) bool { return alive[o.UID] })
		if gone {
			body := map[string]any{"preconditions": map[string]string{"uid": c.Metadata.UID}}
			k.lab.ask(ctx, http.MethodDelete, configMapsPath+"/"+c.Metadata.Name, //nolint:errcheck // again next time
				body)
		}
	}
}

func (k *keeper) list(ctx context.Context, path string, into any) bool {
	status, answer, err := k.lab.ask(ctx, http.MethodGet, path, nil)
	return err == nil && status == http.StatusOK && json.Unmarshal(answer, into) == nil
}
