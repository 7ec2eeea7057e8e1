// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// victimEnv tells this program to be the test that is killed, and where to say what it has started.
const victimEnv = "KUBE_MIGRATOR_TEST_VICTIM"

func TestKilledTestLeavesNoProcessAndNoCgroup(t *testing.T) {
	if path := os.Getenv(victimEnv); path != "" {
		beVictim(t, path)
	}
	path := filepath.Join(t.TempDir(), "folder")
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), victimEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var dir string
	for dir == "" && lines.Scan() {
		t.Log(lines.Text())
		if raw, err := os.ReadFile(path); err == nil {
			dir = string(raw)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if dir == "" {
		t.Fatal("the test that was to be killed has not started a pod")
	}
	expectNothingLeft(t, dir)
}

// beVictim starts a pod that stays and waits to be killed.
func beVictim(t *testing.T, path string) {
	h := newNode(t, testbed.Options{})
	h.run("run", "stays", "--image="+image, "--image-pull-policy=Never", "--restart=Always", "--", "version")
	h.run("wait", "--for=jsonpath={.status.containerStatuses[0].restartCount}=1", "--timeout=60s", "pod/stays")
	if len(leftovers(h.cluster.Dir())) == 0 {
		t.Fatal("a running node leaves nothing: the search for it finds nothing")
	}
	if err := os.WriteFile(path, []byte(h.cluster.Dir()), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log("ready to be killed")
	<-t.Context().Done()
}

// expectNothingLeft waits for the end of what a cluster in the folder had.
func expectNothingLeft(t *testing.T, dir string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := leftovers(dir)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left of the cluster in %s:\n%s", dir, strings.Join(left, "\n"))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// leftovers returns the cgroups, mounts and processes of a cluster.
func leftovers(dir string) []string {
	var left []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		found, _ := filepath.Glob(pattern + filepath.Base(dir)) // the pattern is well-formed
		left = append(left, found...)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range files {
		process := filepath.Dir(path)
		for _, name := range []string{"cgroup", "cmdline", "mountinfo"} {
			raw, err := os.ReadFile(filepath.Join(process, name))
			if err == nil && bytes.Contains(raw, []byte(filepath.Base(dir))) {
				left = append(left, process+"/"+name+" of "+commandOf(process))
			}
		}
	}
	return left
}

func commandOf(process string) string {
	raw, err := os.ReadFile(filepath.Join(process, "cmdline"))
	if err != nil {
		return "a process that is gone now"
	}
	return strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
}
