// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The API server refuses a status with a longer name, and then no status would be written.
func TestTheStatusNamesFailuresUpToTheLengthOfItsFields(t *testing.T) {
	long := strings.Repeat("é", 1100)
	list := failuresOf(run{attempt: 2, report: &worker.Report{Failures: []migrate.Failure{
		{Namespace: "team-a", Name: "reader\u00a0\x1b", Reason: migrate.Rejected, Message: long},
		{Namespace: long, Name: long},
	}}})
	cut := strings.Repeat("é", 252) + "…"
	if len(list) != 2 || list[0].Namespace != "team-a" || list[0].Name != "reader\u00a0\x1b" || list[0].Attempts != 2 ||
		list[0].Message != strings.Repeat("é", 1023)+"…" || list[1].Namespace != cut || list[1].Name != cut {
		t.Errorf("failures are %+v", list)
	}
}
