// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// ticker prints its wall clock, and the time on its monotonic clock since it started, for each line that it reads.
const ticker = `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	begun := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), int64(time.Since(begun)))
	}
}
`

func TestAClockMovesTheWallClockOfOneProcessAndNoTimer(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": ticker, "go.mod": "module ticker\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := ClockOverlay(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "ticker")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	moved, err := NewClock(filepath.Join(dir, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	tick, other := startTicker(t, program, moved.Env()), startTicker(t, program)
	for _, by := range []time.Duration{0, 3 * time.Hour, -90 * time.Minute, time.Second, 0} {
		if err := moved.Move(by); err != nil {
			t.Fatal(err)
		}
		if off := tick(); (off - by).Abs() > 2*time.Second {
			t.Errorf("a clock that is moved by %v is off by %v", by, off)
		}
		if off := other(); off.Abs() > 2*time.Second {
			t.Errorf("the clock of another process is off by %v while one is moved by %v", off, by)
		}
	}
}

// startTicker starts the program and returns a function that asks how far its wall clock is off.
func startTicker(t *testing.T, path string, env ...string) func() time.Duration {
	t.Helper()
	command := exec.CommandContext(t.Context(), path)
	command.Env = append(os.Environ(), env...)
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	t.Cleanup(func() { in.Close(); _ = command.Wait() })
	lines := bufio.NewReader(out)
	return func() time.Duration {
		var seconds, monotonic int64
		fmt.Fprintln(in)
		if _, err := fmt.Fscanln(lines, &seconds, &monotonic); err != nil {
			t.Fatal(err)
		}
		if passed := time.Since(begun); (time.Duration(monotonic) - passed).Abs() > 2*time.Second {
			t.Errorf("%v have passed, and %v on the monotonic clock of the process", passed, time.Duration(monotonic))
		}
		return time.Until(time.Unix(seconds, 0))
	}
}
