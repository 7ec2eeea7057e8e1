// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func someProgress() Progress {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	eta, start := now.Add(90*time.Second), now.Add(-time.Minute)
	return Progress{
		Verdict: upgrade.Unsafe, Sentence: "An upgrade is not safe now: secrets, widgets.demo.example.com. The " +
			"migration failed of gadgets.demo.example.com.", Time: now,
		NotCovered:  []string{"leases.coordination.k8s.io"},
		NotLookedAt: []string{"down.example.com/v1 could not be read: no endpoints"},
		Total:       ProgressTotal{Total: 20_003, Done: 12_503, Failed: 23, ObjectsPerSecond: 430},
		Resources: []ProgressResource{
			{
				Resource: "gadgets.demo.example.com", Migration: "gadgets.demo.example.com",
				Verdict: upgrade.Undetermined, Why: "23 objects were refused", Status: "Failed", Run: upgrade.HasFailed,
				StorageVersion: "v2", StorageVersionHash: "a=", PresentStorageVersion: "v2",
				PresentStorageVersionHash: "a=", Evidence: "Observed", Generation: 2,
				CompletedGeneration: 1, Total: 10_000, TotalIsExact: true, Done: 10_000, Rewritten: 9_977, Failed: 23,
				Failures: []ProgressFailure{{Namespace: "default", Name: "one", Reason: "Rejected",
					Message: "no\ncolor", Attempts: 2}, {Name: "two", Reason: "Forbidden"}},
				Try: "kubectl describe storageversionmigrations.migration.k8s.io gadgets.demo.example.com",
			},
			{Resource: "leases.coordination.k8s.io", Verdict: upgrade.Undetermined, Why: "it has no StorageState",
				PresentStorageVersion: "v1", Try: "kube-migrator request leases.coordination.k8s.io"},
			{Resource: "nodes", Verdict: upgrade.Safe, Why: "everything is stored as v1", PresentStorageVersion: "v1"},
			{Resource: "roles", Verdict: upgrade.Undetermined, Unlisted: true, Why: "it has no StorageState",
				Try: "kube-migrator request roles"},
			{
				Resource: "secrets", Migration: "old", Verdict: upgrade.Unsafe,
				Why: "its StorageState says that objects may be stored as v1", Status: "Succeeded",
				Run: upgrade.HasSucceeded, StorageVersion: "v1",
				Generation: 1, CompletedGeneration: 1, Total: 3, TotalIsExact: true, Done: 3, Current: 3,
				CompletionTime: &start,
			},
			{
				Resource: "widgets.demo.example.com", Migration: "widgets.demo.example.com", Verdict: upgrade.Unsafe,
				Why: "its migration is not finished: Rewriting objects", Status: "Running",
				Run: upgrade.AtWork, Unfinished: true,
				StorageVersion: "v2", Evidence: "Observed", Generation: 1, Total: 10_000, Done: 2_500,
				Rewritten: 2_500, ObjectsPerSecond: 430,
				EstimatedCompletionTime: &eta, StartTime: &start, UpdateTime: &now,
			},
		},
	}
}

func TestProgressIsWrittenInEveryFormat(t *testing.T) {
	for name, test := range map[string]struct {
		format Format
		style  ProgressStyle
	}{
		"table": {Table, ProgressStyle{}}, "wide": {Wide, ProgressStyle{}}, "json": {JSON, ProgressStyle{}},
		"yaml": {YAML, ProgressStyle{}},
		"name": {Name, ProgressStyle{}}, "terminal": {Table, ProgressStyle{Bars: true, Colors: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := someProgress().Write(&out, test.format, test.style); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/progress."+name, out.String())
		})
	}
}

func TestALineOfALogSaysWhatHasChanged(t *testing.T) {
	for i, want := range []string{
		"gadgets.demo.example.com  Failed  100%  10,000/10,000  23 failed", "leases.coordination.k8s.io  NotRequested",
		"nodes  Current", "roles  NotRequested", "secrets  Outdated  100%  3/3",
		"widgets.demo.example.com  Running  25%  2,500/10,000  430/s",
	} {
		if got := someProgress().Resources[i].Line(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAHundredPercentMeansAll(t *testing.T) {
	for _, test := range []struct {
		done, total int64
		want        string
	}{{0, 0, ""}, {0, 10, "0"}, {9_999, 10_000, "99"}, {10_000, 10_000, "100"}, {11, 10, "100"}} {
		if got := Percent(test.done, test.total); got != test.want {
			t.Errorf("Percent(%d, %d) = %q, want %q", test.done, test.total, got, test.want)
		}
	}
}
