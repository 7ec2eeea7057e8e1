// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A tree that was unpacked, rather than cloned, comes with the configuration of a stranger.
func TestAProgramThatARepositoryNamesForWatchingFilesIsNotStarted(t *testing.T) {
	root, started := t.TempDir(), filepath.Join(t.TempDir(), "started")
	program := filepath.Join(root, "watch")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho >>"+started+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "watch"}, {"config", "core.fsmonitor", program}} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = root
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := checkClean(t.Context(), root, new(Plan)); err == nil {
		t.Error("a tree with a file that is not committed is taken for a clean one")
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("the program was started")
	}
}
