// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package golden compares what a test has produced with a file in the repository. `go test -update` writes the files
// instead; the difference is then read like any other change. Only tests import this package, because it defines a
// flag.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing them")

// Compare fails the test unless the file at path contains exactly got. The path is relative to the folder of the test's
// package. With -update, Compare writes the file, and its folder where that is missing.
func Compare(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		write(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s does not exist; go test -update writes it", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := compare.Lines(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it):\n%s", path, diff)
	}
}

// Record writes what a real system has shown, if the test runs with -update: the input of tests without that system,
// which differs from one recording to the next.
func Record(t testing.TB, path string, content func() string) {
	t.Helper()
	if *update {
		write(t, path, content())
	}
}

func write(t testing.TB, path, got string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}
