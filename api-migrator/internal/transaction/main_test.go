// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"os"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// TestMain gives the tests a folder of their own for the notes of transactions. The processes that die share it.
func TestMain(m *testing.M) {
	if os.Getenv(dieIn) != "" {
		os.Exit(m.Run())
	}
	os.Exit(fixture.RunTests(m))
}

// commits lists all commits but the first: subject and files.
func commits(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	for hash := range strings.FieldsSeq(fixture.Run(t, root, "git", "rev-list", "--reverse", "HEAD")) {
		subject := strings.TrimSpace(fixture.Run(t, root, "git", "show", "-s", "--format=%s", hash))
		if subject == "before" {
			continue
		}
		files := strings.Join(strings.Fields(fixture.Run(t, root, "git", "show", "--format=", "--name-status",
			"--no-renames", hash)), " ")
		list = append(list, subject+": "+files)
	}
	return list
}
