// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What the ConfigMap of a run or a roster says is read, or refused, and a run that is given up has an outcome in any
// case.
func FuzzReport(f *testing.F) {
	f.Add(`{"generation":2,"attempt":1,"phase":"Rewriting","counts":{"rewritten":3},"outcome":{"verdict":"Proven"}}`,
		`[{"number":1,"migration":"a","uid":"u","configMap":"c","resource":"widgets"}]`, `{"ended":[1]}`)
	f.Add(`{"failures":[`+strings.TrimSuffix(strings.Repeat("{},", 100_000), ",")+`]}`, `[{}]`, `{"ended":[-1]}`)
	f.Add(`{"objectsPerSecond":1e400}`, `null`, `[]`)
	f.Fuzz(func(t *testing.T, report, tasks, worker string) {
		cm := &corev1.ConfigMap{Data: map[string]string{reportKey: report, tasksKey: tasks, workerKey: worker}}
		cm.Name = "a"
		if r, err := ReadReport(cm); err == nil && r == nil {
			t.Error("neither a report nor an error")
		}
		r, err := ReadRoster(cm)
		for _, task := range r.Tasks {
			if err == nil && (task.Number <= 0 || task.ConfigMap == "" || task.UID == "") {
				t.Errorf("roster %+v", r)
			}
		}
		if err := GiveUp(cm, 1, 1, "why", time.Unix(1_700_000_000, 0)); err == nil {
			if r, err := ReadReport(cm); err != nil || r.Outcome == nil {
				t.Errorf("given up, and the report is %+v (%v)", r, err)
			}
		}
	})
}
