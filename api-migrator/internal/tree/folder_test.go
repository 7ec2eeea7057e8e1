// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLargeManifestsAreListedAndOtherLargeFilesAreNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := []byte(strings.Repeat("# a schema\n", maxText/8))
	for _, name := range []string{"chart/templates/crd.yaml", "bundle.yml", "crd.json", "picture.txt"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), large, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Folder(dir).Paths()
	want := []string{"bundle.yml", "chart/templates/crd.yaml", "crd.json"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, files (-want +got):\n%s", err, diff)
	}
}
