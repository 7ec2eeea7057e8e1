// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// progressOf adds the progress of each migration to the verdicts of a report. It is pure, and decides nothing about
// safety.
func progressOf(q upgrade.Question, facts []upgrade.Facts, about upgrade.Scope) render.Progress {
	report := q.Report(facts, about)
	p := render.Progress{
		Verdict: report.Verdict, Sentence: report.Sentence, Resources: []render.ProgressResource{},
		NotCovered:  []string{},
		NotLookedAt: report.NotLookedAt, Excluded: report.Excluded, Time: q.Now.UTC(),
	}
	var failed []string
	for _, f := range facts {
		at := slices.IndexFunc(
			report.Findings, func(finding upgrade.Finding) bool { return finding.Resource == f.Resource.String() },
		)
		finding := report.Findings[at]
		row := render.ProgressResource{Resource: finding.Resource, Unlisted: !about.Named}
		if m := f.Migration(); m != nil {
			row = rowOf(m, finding.Resource)
		}
		row.PresentStorageVersion, row.PresentStorageVersionHash = finding.Current, f.CurrentHash
		row.Verdict, row.Why, row.Try = finding.Verdict, finding.Why, finding.Next
		row.Stored, row.Recorded = finding.Stored, f.State
		if row.Run == upgrade.HasFailed {
			row.Why, row.Try = f.Failure(finding)
			failed = append(failed, row.Resource)
		}
		if row.Migration == "" && row.Verdict != upgrade.Safe {
			p.NotCovered = append(p.NotCovered, row.Resource)
		}
		p.Resources = append(p.Resources, row)
		p.Total.Total += row.Total
		p.Total.Done += row.Done
		p.Total.Failed += row.Failed
		p.Total.ObjectsPerSecond += row.ObjectsPerSecond
	}
	slices.SortStableFunc(p.Resources, func(a,
		b render.ProgressResource) int {
		return cmp.Compare(a.Resource, b.Resource)
	})
	slices.Sort(p.NotCovered)
	if len(failed) > 0 {
		slices.Sort(failed)
		p.Sentence += " The migration failed of " + phrase.Few(failed) + "."
	}
	return p
}

// progressExit returns the exit code of progress: that of the verdict, unless a run has failed.
func progressExit(p render.Progress) int {
	if slices.ContainsFunc(p.Resources, func(r render.ProgressResource) bool { return r.Run == upgrade.HasFailed }) {
		return exit.Failures
	}
	return exitOf(p.Verdict)
}

// rowOf returns what the status of a migration contains.
func rowOf(m *v1alpha1.StorageVersionMigration, resource string) render.ProgressResource {
	status, p := m.Status, m.Status.Progress
	row := render.ProgressResource{
		Resource: resource, Migration: m.Name, Status: string(status.State), Summary: status.Summary,
		StorageVersion: status.StorageVersion, StorageVersionHash: status.StorageVersionHash,
		Run: upgrade.RunOf(m), Unfinished: upgrade.RunOf(m).Unfinished(),
		Generation: m.Spec.Generation, CompletedGeneration: status.CompletedGeneration,
		Total: p.Total, TotalIsExact: p.TotalIsExact, Done: p.Done, Rewritten: p.Rewritten, Current: p.Current,
		Gone: p.Gone, Failed: p.Failed, WouldLoseFields: p.WouldLoseFields, Retried: p.Retried,
		ObjectsPerSecond: p.ObjectsPerSecond, EstimatedCompletionTime: moment(p.EstimatedCompletionTime),
		StartTime:  moment(p.StartTime),
		UpdateTime: moment(p.UpdateTime), CompletionTime: moment(p.CompletionTime),
	}
	if status.Epoch != nil {
		row.Evidence = status.Epoch.Evidence
	}
	if status.Run.Generation < m.Spec.Generation { // the status is about the previous run
		row.Total, row.TotalIsExact, row.Done, row.ObjectsPerSecond = 0, false, 0, 0
		row.Rewritten, row.Current, row.Gone, row.Failed, row.WouldLoseFields, row.Retried = 0, 0, 0, 0, 0, 0
		row.StorageVersion, row.StorageVersionHash, row.Evidence = "", "", ""
		row.EstimatedCompletionTime, row.StartTime, row.UpdateTime, row.CompletionTime = nil, nil, nil, nil
	}
	for _, f := range status.Failures {
		row.Failures = append(row.Failures, render.ProgressFailure{Namespace: f.Namespace, Name: f.Name,
			Reason: f.Reason, Message: f.Message, Attempts: f.Attempts})
	}
	if c := records.ConditionOf(m, v1alpha1.ConditionFailed); c != nil && row.Run == upgrade.HasFailed &&
		slices.Contains(worker.Failures(), worker.Result(c.Reason)) {
		row.Runbook = render.Runbook + strings.ToLower(c.Reason)
	}
	return row
}

func moment(t metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	utc := t.UTC()
	return &utc
}
