// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// Labels and annotations of a Job and its roster, in addition to those of a run's checkpoint.
const (
	rosterLabel = "migration.k8s.io/roster"
	// settingsAnnotation contains the evidence and times with which the Job's worker was started.
	settingsAnnotation = "migration.k8s.io/settings"
)

// rosterOf returns the name of a Job's roster.
func rosterOf(job string) string { return job + "-roster" }

// carrier is a Job whose worker carries out runs.
type carrier struct {
	job *batchv1.Job
	// roster is nil if it cannot be determined what the worker is working on.
	roster *worker.Roster
	// sheet is the ConfigMap of the roster, or nil if it is deleted.
	sheet *corev1.ConfigMap
	// working means that pods of the Job may write.
	working bool
	// broken says why no pod will start any more.
	broken string
	// outdated means that the worker has another image or service account than a new one would have.
	outdated bool
	// superseded means that the Job says so of itself, or that its worker was started with other settings: another worker
	// is to continue its runs. Admission may have removed what Jobs say, and each new one would be replaced at once.
	superseded bool
}

// at reports whether the worker was assigned the run and has not ended it.
func (c *carrier) at(r run) bool { return c.roster != nil && c.roster.Has(r.name) }

// suspended reports whether no pod of the Job will be started.
func (c *carrier) suspended() bool { return c.job.Spec.Suspend != nil && *c.job.Spec.Suspend }

// free reports whether the worker can be assigned a run.
func (c *carrier) free() bool {
	return c.sheet != nil && c.roster != nil && !c.roster.Closed && c.working && !c.suspended() &&
		c.job.DeletionTimestamp == nil && !c.superseded
}

// choose returns the Job for a run: the one that is working on it, else a free one, else nil. It is pure.
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

// freeName returns a name that no Job has.
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

// withCarriers finds out which runs have a worker. A run with a worker counts as long as pods of the Job may write,
// even if its checkpoint and its migration are deleted (I8). A Job that is no longer needed, or whose work cannot be
// determined, is a stray. It is pure.
func withCarriers(all []run, carriers []carrier) []run {
	for _, c := range carriers {
		dismissed := c.job.DeletionTimestamp != nil
		stray := run{name: "Job " + c.job.Name, job: c.job.Name, stray: true, dismissed: dismissed, removing: dismissed}
		switch {
		case c.roster == nil: // it may write anything
			if stray.active = c.working; stray.active || !dismissed {
				all = append(all, stray)
			}
		case len(c.roster.Open()) > 0:
			for _, t := range c.roster.Open() {
				all = c.addTo(all, t)
			}
		case !dismissed && (c.broken != "" || c.suspended() || c.roster.Process == ""):
			all = append(all, stray)
		}
	}
	return all
}

// addTo adds what the Job shows about a run of its worker.
func (c *carrier) addTo(all []run, t worker.Task) []run {
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
	r.resource = t.Resource // users can edit the annotations of a checkpoint
	r.job, r.outdated, r.superseded = c.job.Name, c.outdated, c.superseded
	r.ending = c.suspended() || c.job.DeletionTimestamp != nil
	r.begun = latest(r.begun, t.Given)
	r.whereabouts = fmt.Sprintf("the Job %s %s (to see why: kubectl -n %s describe job %s)", c.job.Name, podOf(c.job),
		c.job.Namespace, c.job.Name)
	if r.report != nil && r.report.Outcome != nil {
		return all // the outcome is the worker's last write for a run
	}
	r.active = r.active || c.working
	if r.broken == "" {
		r.broken = c.broken
	}
	return all
}
