// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-migrator/kube-migrator/internal/worker"
)

// What a Job and its roster say next to what a run's checkpoint says.
const (
	rosterLabel = "migration.k8s.io/roster"
	// settingsAnnotation is what the Job's worker was told about evidence and times.
	settingsAnnotation = "migration.k8s.io/settings"
	// lastAnnotation is the task that the worker was at when the Job was deleted, in JSON; an empty one where it was at
	// none.
	lastAnnotation = "migration.k8s.io/last-task"
)

// rosterOf is the name of a Job's roster.
func rosterOf(job string) string { return job + "-roster" }

// carrier is a Job whose worker carries out runs.
type carrier struct {
	job *batchv1.Job
	// roster is nil where no one can tell what the worker is at.
	roster *worker.Roster
	// sheet is the ConfigMap of the roster; nil where it is gone.
	sheet *corev1.ConfigMap
	// working: pods of the Job may write.
	working bool
	// broken says why no pod comes any more.
	broken string
	// outdated: the worker has another image or service account than a new one would have; otherwise: it was told other
	// settings.
	outdated, otherwise bool
}

// at reports whether the worker was given the run and has not ended it.
func (c *carrier) at(r run) bool {
	return c.roster != nil && !c.roster.Idle() && c.roster.Task.ConfigMap == r.name
}

// suspended: no pod of the Job is started.
func (c *carrier) suspended() bool { return c.job.Spec.Suspend != nil && *c.job.Spec.Suspend }

// free reports whether the worker can be given a run.
func (c *carrier) free() bool {
	return c.sheet != nil && c.roster != nil && c.roster.Idle() && !c.roster.Closed && c.working && !c.suspended() &&
		c.job.DeletionTimestamp == nil && !c.outdated && !c.otherwise
}

// choose returns the Job for a run: the one that is at it, else a free one; nil where there is none. Pure.
func choose(all []carrier, r run) *carrier {
	for i := range all {
		if all[i].at(r) {
			return &all[i]
		}
	}
	for i := range all {
		if all[i].free() {
			return &all[i]
		}
	}
	return nil
}

// freeName is a name that no Job has.
func freeName(all []carrier, name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(c carrier) bool { return c.job.Name == name })
	}
	free := name
	for i := 2; taken(free); i++ {
		free = fmt.Sprintf("%s-%d", name, i)
	}
	return free
}

// withCarriers tells which runs have a worker. A run that a worker is at is one whatever has become of its checkpoint
// and its migration, as long as pods of the Job may write (I8). A Job that is of no use any more, or of which no one
// can tell what it does, is a stray. Pure.
func withCarriers(all []run, carriers []carrier) []run {
	for _, c := range carriers {
		dismissed := c.job.DeletionTimestamp != nil
		stray := run{name: "Job " + c.job.Name, job: c.job.Name, stray: true, dismissed: dismissed, removing: dismissed}
		switch {
		case c.roster == nil: // anything may be written
			if stray.active = c.working; stray.active || !dismissed {
				all = append(all, stray)
			}
		case c.roster.Idle():
			if over := c.broken != "" || c.suspended(); over && !dismissed {
				all = append(all, stray)
			}
		default:
			all = c.addTo(all)
		}
	}
	return all
}

// addTo adds what the Job shows of the run that its worker is at.
func (c *carrier) addTo(all []run) []run {
	t := c.roster.Task
	i := slices.IndexFunc(all, func(r run) bool { return r.name == t.ConfigMap })
	if i < 0 {
		i = len(all)
		all = append(all, run{
			name: t.ConfigMap, migration: t.Migration, uid: t.UID, resource: t.Resource,
			generation: t.Generation, attempt: t.Attempt,
			start: t.StartResourceVersion, incomplete: true,
		})
	}
	r := &all[i]
	r.resource = t.Resource // annotations of a checkpoint can be edited
	r.job, r.dismissed, r.outdated = c.job.Name, c.job.DeletionTimestamp != nil, c.outdated
	r.begun = latest(r.begun, t.Given, haltedOrResumed(c.job))
	r.whereabouts = fmt.Sprintf("the Job %s %s (to see why: kubectl -n %s describe job %s)", c.job.Name, podOf(c.job),
		c.job.Namespace, c.job.Name)
	if r.report != nil && r.report.Outcome != nil {
		// the outcome is the last thing that a worker writes for a run
		r.leaving = c.working && !r.dismissed && !c.suspended()
		return all
	}
	r.active = r.active || c.working
	if r.broken == "" {
		r.broken = c.broken
	}
	return all
}
