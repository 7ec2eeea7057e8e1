// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A test moves the clock of one process, not that of the machine. libfaketime cannot: it replaces functions of the C
// library, and a statically linked Go program calls none of them. Go's runtime reads the clock from the vDSO, without a
// system call that ptrace or seccomp could catch. So the program is built with a patched copy of one file of Go's
// package time (go build -overlay): time.Now adds what a file says that the test writes and the process has mapped.
// Only the wall clock moves. The monotonic clock, timers and time-outs do not, as when an administrator or NTP sets a
// machine's clock.

// clockEnv names that file to a program. Without it the clock is right.
const clockEnv = "KUBE_MIGRATOR_TESTBED_CLOCK"

// These are the changes of ClockOverlay to package time, and the file that it adds.
const (
	readClock = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	moveClock = readClock + "\tsec += movedSeconds()\n"
	clockFile = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var moved = mapMoved()

func movedSeconds() int64 {
	if moved == nil {
		return 0
	}
	return atomic.LoadInt64(moved)
}

func mapMoved() *int64 {
	path, ok := syscall.Getenv("` + clockEnv + `")
	if !ok {
		return nil
	}
	file, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("open " + path + ": " + err.Error())
	}
	page, err := syscall.Mmap(file, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("map " + path + ": " + err.Error())
	}
	return (*int64)(unsafe.Pointer(&page[0]))
}
`
)

// ClockOverlay writes to a folder what "go build -overlay" needs for a program whose clock a Clock can move, and
// returns the path of the file to name there. The folder has to last as long as the build.
func ClockOverlay(ctx context.Context, dir string) (path string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go's packages: %w", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	now := filepath.Join(folder, "time.go")
	source, err := os.ReadFile(now)
	if err != nil {
		return "", fmt.Errorf("read package time: %w", err)
	}
	if strings.Count(string(source), readClock) != 1 {
		return "", errors.New("patch package time: this release of Go reads the clock in another way")
	}
	replace := map[string]string{}
	for original, text := range map[string]string{
		now: strings.Replace(string(source), readClock, moveClock, 1),
		filepath.Join(folder, "zz_testbed_clock.go"): clockFile,
	} {
		replace[original] = filepath.Join(dir, filepath.Base(original))
		if err := os.WriteFile(replace[original], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, raw, 0o644)
}

// Clock is the wall clock of processes that were built with ClockOverlay and started with its Env.
type Clock struct{ path string }

// NewClock returns a clock that is right. Its state is a file at a path, which has to exist while a process uses it.
func NewClock(path string) (Clock, error) {
	c := Clock{path: path}
	return c, c.Move(0)
}

// Env returns the variables to add to the environment of a process.
func (c Clock) Env() string { return clockEnv + "=" + c.path }

// Move makes the clock differ from that of the machine, by whole seconds, from now on.
func (c Clock) Move(by time.Duration) error {
	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("move clock: %w", err)
	}
	defer file.Close()
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(by/time.Second)))
	if _, err := file.WriteAt(seconds, 0); err != nil {
		return fmt.Errorf("move clock: %w", err)
	}
	return nil
}
