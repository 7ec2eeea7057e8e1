// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"encoding/json"
	"testing"
	"time"
)

func TestHowLongAnInTreeMigrationHoldsBackOurs(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const running = `{"type": "Running", "status": "True", "lastTransitionTime": "2026-01-01T13:00:00Z"}`
	for name, test := range map[string]struct {
		conditions string
		after      time.Duration // since it was created
		want       bool
	}{
		"it has just been created":                 {"", time.Minute, true},
		"its controller is off":                    {"", inTreeBegins, false},
		"it runs":                                  {running, 10 * time.Hour, true},
		"its controller was turned off in between": {running, time.Hour + inTreeEnds, false},
		"it has succeeded":                         {`{"type": "Succeeded", "status": "True"}`, time.Minute, false},
		"it has failed": {running +
			`, {"type": "Failed", "status": "True"}`, time.Minute, false},
		"it runs no more, and has not ended": {
			`{"type": "Running", "status": "False", "lastTransitionTime": "2026-01-01T13:00:00Z"}`, time.Hour, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m inTreeMigration
			raw := `{"metadata": {"name": "m", "creationTimestamp": "2026-01-01T12:00:00Z"}, "status": {"conditions": [` + test.conditions + `]}}`
			if err := json.Unmarshal([]byte(raw), &m); err != nil {
				t.Fatal(err)
			}
			if got := m.atWork(created.Add(test.after)); got != test.want {
				t.Errorf("%v after its creation it is at work: %t, want %t", test.after, got, test.want)
			}
		})
	}
}
