// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestARetirementIsWrittenInEveryFormat(t *testing.T) {
	owners := retire.Owners{Objects: 12, Managers: []retire.Manager{{Name: "kubectl", Operation: "Apply", Objects: 12}}}
	planned := Retirement{
		CRD: "widgets.demo.example.com", Version: "v1", StorageVersion: "v2", DryRun: true, Owners: owners,
		Steps: []retire.Step{
			{Name: retire.Migrate, State: retire.Todo,
				What: "rewrite 12 objects as v2, and prove that nothing else is stored"},
			{Name: retire.Owned, State: retire.Todo,
				What: "move the managedFields entries of 12 objects from v1 to v2: " + owners.String()},
			{Name: retire.Unserve, State: retire.Done, What: "v1 is not served"},
			{Name: retire.Remove, State: retire.NotAsked, What: "--remove takes v1 out of spec.versions"},
		},
		Next: "kube-migrator retire widgets.demo.example.com --version=v1",
	}
	failed := planned
	failed.DryRun, failed.Error = false, "objects could not be rewritten: 1"
	failed.Migration = &Migration{Resource: planned.CRD, StorageVersion: "v2", Outcome: Incomplete,
		Result: migrate.Result{
			Counts: migrate.Counts{Rewritten: 11, Failed: 1}, Total: 12,
			Failures: []migrate.Failure{{Namespace: "default", Name: "w", Reason: migrate.Rejected,
				Message: "not this one"}},
		}}
	finished := planned
	finished.DryRun, finished.Next, finished.Steps = false, "",
		[]retire.Step{{Name: retire.Remove, State: retire.Done, What: "v1 is not in spec.versions any more"}}
	for name, test := range map[string]struct {
		report Retirement
		format Format
	}{
		"retire-plan.text": {planned, Text}, "retire-plan.json": {planned, JSON}, "retire-plan.yaml": {planned, YAML},
		"retire-failed.text": {failed, Text}, "retire-done.text": {finished, Text},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			var err error
			if test.format == Text {
				err = test.report.Text(&b)
			} else {
				err = Data(&b, test.format, &test.report)
			}
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/"+name, b.String())
		})
	}
}
