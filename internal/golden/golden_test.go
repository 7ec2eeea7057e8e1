// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that fails without ending the one that uses it.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

func TestAFileThatDiffersFailsTheTest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file.txt")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same, other := &recorder{TB: t}, &recorder{TB: t}
	Compare(same, path, "one\ntwo\n")
	Compare(other, path, "one\nthree\n")
	if len(same.failures) != 0 || len(other.failures) != 1 || !strings.Contains(other.failures[0], "three") {
		t.Errorf("failures are %q and %q", same.failures, other.failures)
	}
}

func TestUpdateWritesTheFileAndItsFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "file.txt")
	*update = true
	t.Cleanup(func() { *update = false })
	Compare(t, path, "new\n")
	*update = false
	Compare(t, path, "new\n")
}
