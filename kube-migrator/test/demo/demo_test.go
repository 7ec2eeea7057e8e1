// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The programs, built from this tree.
var demo, migrator string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kube-migrator-demo-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	demo, migrator = filepath.Join(dir, "demo"), filepath.Join(dir, "kube-migrator")
	for target, pkg := range map[string]string{demo: ".", migrator: "../.."} {
		if out, err := exec.Command("go", "build", "-o", target, pkg).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

// demoCommand returns the demo with few objects and with a folder for temporary files of its own, which is expected to
// be empty, and in no process's arguments, when it has ended.
func demoCommand(t *testing.T) (*exec.Cmd, func()) {
	t.Helper()
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), demo, "--binary="+migrator, "--widgets=120",
		"--policies=5", "--settle-time=1s")
	cmd.Env = append(os.Environ(), "TMPDIR="+folder, "NO_COLOR=1")
	return cmd, func() {
		t.Helper()
		left, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range left {
			t.Errorf("left behind: %s", entry.Name())
		}
		for _, line := range processesNaming(t, folder) {
			t.Errorf("still running: %s", line)
		}
	}
}

// processesNaming returns the command lines that contain a text.
func processesNaming(t *testing.T, text string) (lines []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(text)) && path != "/proc/"+strconv.Itoa(os.Getpid())+"/cmdline" {
			lines = append(lines, string(bytes.ReplaceAll(raw, []byte{0}, []byte(" "))))
		}
	}
	return lines
}

func TestTheDemoProvesAMigrationTwiceInARowAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for range 2 {
		cmd, wantNothingLeft := demoCommand(t)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("demo: %v\n%s", err, out)
		}
		wantNothingLeft()
		prose := strings.Join(strings.Fields(string(out)), " ") // lines are wrapped, columns padded
		for _, want := range []string{
			"widgets.demo.example.com v1 120 0 widgets.demo.example.com v2 0 120",
			"mutatingadmissionpolicies.admissionregistration.k8s.io v1beta1 5 0 " +
				"mutatingadmissionpolicies.admissionregistration.k8s.io v1 0 5",
			"objects in old versions - 125 0 objects whose version cannot be told - 0 0 storedVersions that widgets " +
				"claim - [v1 v2] [v2]",
		} {
			if !strings.Contains(prose, want) {
				t.Errorf("the table does not say %q:\n%s", want, out)
			}
		}
		if want := "Proven: etcd held 125 objects in old versions (120 widgets as v1, 5 mutatingadmissionpolicies as " +
			"v1beta1) and now holds none; " +
			"all 125 are still there with the same UID, generation, managedFields and content; and all 120 widgets " +
			"are read without v1."; !strings.HasSuffix(prose, want) {
			t.Errorf("the demo does not end with %q:\n%s", want, out)
		}
	}
}

func TestADemoWithoutABinarySaysSoAtOnce(t *testing.T) {
	cmd, wantNothingLeft := demoCommand(t)
	cmd.Args[1] = "--binary=" + migrator + "-of-another-name"
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.HasSuffix(string(out), "Try: make build\n") ||
		strings.Contains(string(out), "1. ") {
		t.Errorf("exit code %d (%v), want 1 and a hint before the first chapter:\n%s", code, err, out)
	}
	wantNothingLeft()
}
