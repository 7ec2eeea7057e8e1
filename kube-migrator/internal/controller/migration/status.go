// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

const (
	maxServers  = 64   // listed in status.epoch
	maxFailures = 20   // listed in status.failures
	maxText     = 1024 // characters of a summary or a message
	maxName     = 253  // characters of a failure's name or namespace
)

// statusAfter returns the status after a decision was carried out. It is pure.
func statusAfter(m *v1alpha1.StorageVersionMigration, d decision, now time.Time,
	firstRetry time.Duration) v1alpha1.StorageVersionMigrationStatus {
	s := *m.Status.DeepCopy()
	s.State = d.phase
	if d.run.name != "" && d.step != stepNothing {
		takeUp(&s, d.run)
	}
	if d.run.report != nil && d.step != stepNothing {
		repeat(&s, d.run)
	}
	if d.step == stepFail {
		s.Run.Failures++
		s.Run.RetryTime = metav1.NewTime(now.Add(retryAfter(firstRetry, s)).Truncate(time.Second))
		s.Failures = failuresOf(d.run)
		if o := d.run.outcome(); o != nil {
			s.Progress.CompletionTime = metav1.NewTime(o.Ended)
		}
	}
	if d.step == stepAdopt {
		s.CompletedGeneration, s.Progress.CompletionTime = max(1, m.Spec.Generation),
			metav1.NewTime(now.Truncate(time.Second))
	}
	if d.step == stepVoid {
		s.Run.RetryTime = metav1.NewTime(now.Truncate(time.Second)) // due at once, but in its turn
	}
	if d.step == stepPostpone {
		s.Run.RetryTime = metav1.NewTime(now.Add(d.run.outcome().Left).Truncate(time.Second))
	}
	if d.silent || d.phase != v1alpha1.PhaseRunning && d.phase != v1alpha1.PhaseWaiting {
		s.Progress.ObjectsPerSecond, s.Progress.EstimatedCompletionTime = 0, metav1.Time{}
	}
	s.ObservedGeneration = observed(m, s, d.phase)
	s.Summary = printable.Cut(summary(s, d), maxText)
	s.Conditions = conditions(m.Status.Conditions, metav1.NewTime(now.Truncate(time.Second)), m.Generation, d.phase,
		d.reason, printable.Cut(d.message, maxText))
	return s
}

// takeUp changes the status to that of run r, if r is another run. The failures of earlier runs stay.
func takeUp(s *v1alpha1.StorageVersionMigrationStatus, r run) {
	if s.Run.Generation != r.generation {
		s.Run = v1alpha1.Run{Generation: r.generation}
		s.Progress, s.Epoch, s.ResourceVersion = v1alpha1.Progress{}, nil, ""
		s.StorageVersion, s.StorageVersionHash = "", ""
	}
	if s.Run.Attempt != r.attempt {
		s.Run.Attempt, s.Run.RetryTime = r.attempt, metav1.Time{}
		s.Progress.CompletionTime = metav1.Time{}
	}
	s.Run.StartResourceVersion = r.start
}

// repeat copies the worker's report. It is what the worker stated at that time, never a conclusion (I4).
func repeat(s *v1alpha1.StorageVersionMigrationStatus, r run) {
	report := r.report
	s.StorageVersion, s.StorageVersionHash = report.StorageVersion, report.Epoch.Hash
	if report.Epoch.Hash != "" {
		e := report.Epoch
		s.Epoch = &v1alpha1.Epoch{
			Servers: e.Servers[:min(len(e.Servers), maxServers)], Evidence: e.Evidence.String(),
			Since: metav1.NewTime(e.Since.Truncate(time.Second)), CRDUID: string(e.CRDUID),
			CRDGeneration: e.CRDGeneration,
		}
	}
	if report.Baseline > 0 {
		s.ResourceVersion = strconv.FormatUint(report.Baseline, 10)
	}
	completion := s.Progress.CompletionTime
	s.Progress = v1alpha1.Progress{
		Total: report.Total, TotalIsExact: report.Listed, Done: report.Counts.Done(),
		Rewritten: report.Counts.Rewritten, Current: report.Counts.Current, Gone: report.Counts.Gone,
		Failed: report.Counts.Failed, WouldLoseFields: report.Counts.WouldLoseFields, Retried: report.Counts.Retried,
		Verified:         report.Verified,
		ObjectsPerSecond: int64(report.ObjectsPerSecond + 0.5),
		StartTime:        metav1.NewTime(report.Started.Truncate(time.Second)),
		UpdateTime:       metav1.NewTime(report.Updated.Truncate(time.Second)),
		CompletionTime:   completion,
	}
	p := &s.Progress
	p.Total = max(p.Total, p.Done) // the total is an estimate, and objects are created in the meantime
	if left := p.Total - p.Done; left > 0 && p.ObjectsPerSecond > 0 {
		eta := report.Updated.Add(time.Duration(float64(left) / report.ObjectsPerSecond * float64(time.Second)))
		p.EstimatedCompletionTime = metav1.NewTime(eta.Truncate(time.Second))
	}
}

// failuresOf returns the failures that a run reports, for the status.
func failuresOf(r run) []v1alpha1.Failure {
	if r.report == nil {
		return nil
	}
	var list []v1alpha1.Failure
	for _, f := range r.report.Failures[:min(len(r.report.Failures), maxFailures)] {
		list = append(list, v1alpha1.Failure{
			Namespace: printable.Cut(f.Namespace, maxName), Name: printable.Cut(f.Name, maxName),
			Reason: string(f.Reason), Message: printable.Cut(f.Message, maxText), Attempts: r.attempt,
		})
	}
	return list
}

// succeeded returns the status of a proven run.
func succeeded(m *v1alpha1.StorageVersionMigration, r run, now time.Time) v1alpha1.StorageVersionMigrationStatus {
	d := decision{step: stepConclude, run: r, phase: v1alpha1.PhaseSucceeded, reason: v1alpha1.ReasonProven}
	c := r.report.Counts
	d.message = fmt.Sprintf("All %d objects are stored in %s: %d rewritten, %d already current, %d gone (%s)",
		c.Done(), versionOf(r.report), c.Rewritten+c.RewrittenBefore, c.Current, c.Gone, r.report.Epoch.Evidence)
	s := statusAfter(m, d, now, 0)
	s.CompletedGeneration = r.generation
	s.Failures = nil
	s.Run.RetryTime = metav1.Time{}
	s.Progress.CompletionTime = metav1.NewTime(now.Truncate(time.Second))
	s.Progress.TotalIsExact = true
	s.Progress.Total = s.Progress.Done
	return s
}

func versionOf(r *worker.Report) string {
	if r.StorageVersion != "" {
		return r.StorageVersion
	}
	return "the version with the hash " + r.Epoch.Hash
}

// observed returns status.observedGeneration: the spec.generation that was taken up. The comment of the field says when
// it is omitted.
func observed(m *v1alpha1.StorageVersionMigration, s v1alpha1.StorageVersionMigrationStatus,
	phase v1alpha1.Phase) int64 {
	takenUp := max(s.Run.Generation, s.CompletedGeneration) // an adopted generation needed no run
	switch phase {
	case v1alpha1.PhaseSucceeded, v1alpha1.PhaseFailed, v1alpha1.PhasePaused, v1alpha1.PhaseCancelled:
		if takenUp != m.Generation {
			return 0
		}
	case v1alpha1.PhasePending, v1alpha1.PhaseWaiting, v1alpha1.PhaseRunning:
	}
	return takenUp
}

// summary returns one line for users.
func summary(s v1alpha1.StorageVersionMigrationStatus, d decision) string {
	p := s.Progress
	switch {
	case d.phase == v1alpha1.PhaseRunning && p.Total > 0 && !d.silent && d.reason != v1alpha1.ReasonConfirming:
		return fmt.Sprintf("%d of %d objects, %d/s", p.Done, p.Total, p.ObjectsPerSecond)
	case d.phase == v1alpha1.PhaseFailed && !s.Run.RetryTime.IsZero():
		return d.message + "; trying again after " + s.Run.RetryTime.UTC().Format(time.RFC3339)
	case d.message == "":
		return string(d.phase)
	}
	return d.message
}

// changed reports whether next differs from the recorded status. The times of conditions alone are not a difference.
func changed(recorded, next v1alpha1.StorageVersionMigrationStatus) bool {
	return !equality.Semantic.DeepEqual(recorded, next)
}
