// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, wantNothingLeft := demoCommand(t)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "$ kube-migrator migrate") {
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, stdout) //nolint:errcheck // only so that the demo can write
	cmd.Wait()                  //nolint:errcheck // the code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d (%v), want 130", code, cmd.ProcessState.Sys().(syscall.WaitStatus))
	}
	wantNothingLeft()
}

func TestADemoWhoseMigrationDoesNothingSaysThatNothingIsProven(t *testing.T) {
	t.Parallel()
	cmd, wantNothingLeft := demoCommand(t)
	liar := filepath.Join(t.TempDir(), "liar")
	script := "#!/bin/sh\nif [ $1 = migrate ]; then echo 'everything was migrated'; else exec " +
		migrator + " \"$@\"; fi\n"
	if err := os.WriteFile(liar, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Args[1] = "--binary=" + liar
	out, err := cmd.CombinedOutput()
	prose := strings.Join(strings.Fields(string(out)), " ")
	if code := cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(prose, "NOT proven: etcd still holds 125 objects in old versions") ||
		strings.Contains(prose, "Proven:") {
		t.Errorf("exit code %d (%v), want 1 and what is not proven:\n%s", code, err, out)
	}
	wantNothingLeft()
}
