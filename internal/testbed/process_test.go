// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holderEnv makes the test binary start a cluster, print the IDs of its processes and wait to be killed.
const holderEnv = "KUBE_MIGRATOR_TESTBED_HOLD"

func TestMain(m *testing.M) {
	if os.Getenv(holderEnv) == "" {
		os.Exit(m.Run())
	}
	c, err := Start(context.Background(), Options{Isolated: os.Getenv(holderEnv) == "isolated"})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(c.Dir(), c.Etcd.process.cmd.Process.Pid, c.Servers[0].PID())
	select {}
}

func TestNothingIsLeftWhenTheProcessIsKilled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // other tests remove what a dead process has left as well
	for _, kind := range []string{"plain", "isolated"} {
		t.Run(kind, func(t *testing.T) {
			holder := exec.Command(os.Args[0])
			holder.Env = append(os.Environ(), holderEnv+"="+kind)
			holder.Stderr = os.Stderr
			out, err := holder.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			_ = holder.Process.Kill()
			_ = holder.Wait()
			fields := strings.Fields(line)
			if err != nil || len(fields) != 3 {
				t.Fatalf("the holder of the cluster said %q (%v)", line, err)
			}
			for _, field := range fields[1:] {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				deadline := time.Now().Add(10 * time.Second)
				for alive(pid) {
					if time.Now().After(deadline) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
						t.Fatalf("process %d outlives the one that started it", pid)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			if _, err := os.Stat(fields[0]); err != nil {
				t.Fatalf("the killed process cannot have removed its folder: %v", err)
			}
			f, err := newFolder()
			if err != nil {
				t.Fatal(err)
			}
			defer f.remove()
			if _, err := os.Stat(fields[0]); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the next cluster has not removed the folder of the dead one: %v", err)
			}
		})
	}
}

// alive tells whether a process exists and is more than a zombie that no one has waited for.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

func TestFolderOfALivingOwnerIsNotRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	first, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer first.remove()
	second, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer second.remove()
	if _, err := os.Stat(first.path); err != nil {
		t.Error(err)
	}
}

func TestStartErrorTellsWhatWentWrong(t *testing.T) {
	never := func(context.Context) error { return errors.New("no answer yet") }
	for name, test := range map[string]struct {
		script string
		limit  time.Duration
		reason error
		says   []string
	}{
		"a process that exits is told with its status and its last words": {
			"echo bad flag; exit 3", time.Minute, ErrExitedEarly, []string{"victim", "exit status 3", "bad flag"},
		},
		"a process that is killed is told with the signal": {
			"kill -9 $$", time.Minute, ErrExitedEarly, []string{"signal: killed"},
		},
		"a process that runs without becoming ready is told with the last answer": {
			"echo starting; exec sleep 100", 200 * time.Millisecond, ErrNotReady,
			[]string{"200ms", "no answer yet", "starting"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := launch(nil, "", "victim", filepath.Join(t.TempDir(), "log"), "sh", "-c", test.script)
			if err != nil {
				t.Fatal(err)
			}
			defer p.kill()
			err = p.await(t.Context(), test.limit, never)
			if !errors.Is(err, test.reason) {
				t.Errorf("the reason is %v, want %v", err, test.reason)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q:\n%v", part, err)
				}
			}
		})
	}
}

func TestServerWithABadFlagExitsEarly(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Flags: []string{"--no-such-flag"}})
	if !errors.Is(err, ErrExitedEarly) || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("error is %v, want early exit with the server's words", err)
	}
}

// What goes wrong before there is a cluster is told, and does not end the test's process.
func TestAClusterThatCannotBeMadeIsAnError(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	if _, err := Start(t.Context(), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that names the folder", err)
	}
}
