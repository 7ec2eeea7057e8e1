// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Usage is what a program took, with the programs that it started.
type Usage struct {
	CPU, Wall time.Duration
	// PeakBytes is the most memory that the largest of these processes had at a time.
	PeakBytes int64
}

// output is what a program wrote and took.
type output struct {
	stdout, stderr []byte
	usage          Usage
}

// run runs a program in a folder. An error that is an *exec.ExitError is an answer of the program.
func (t *trying) run(ctx context.Context, dir, name string, args ...string) (output, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	// The go command looks for no go.work above the copy, and binaries for envtest would make tests slow that start one.
	command.Env = append(os.Environ(), "GOWORK=off", "KUBEBUILDER_ASSETS=", "XDG_STATE_HOME="+t.Work)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	start := time.Now()
	err := command.Run()
	out := output{stdout: stdout.Bytes(), stderr: stderr.Bytes(), usage: Usage{Wall: time.Since(start)}}
	if state := command.ProcessState; state != nil {
		out.usage.CPU = state.UserTime() + state.SystemTime()
		if rusage, ok := state.SysUsage().(*syscall.Rusage); ok {
			out.usage.PeakBytes = rusage.Maxrss * 1024 // Linux counts in KiB
		}
	}
	return out, err
}

// mustRun runs a program whose failure keeps the trial from going on.
func (t *trying) mustRun(ctx context.Context, name string, args ...string) error {
	if out, err := t.run(ctx, t.root, name, args...); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, bytes.TrimSpace(out.stderr))
	}
	return nil
}

// ran says whether a program ran to its end, whatever its answer.
func ran(err error) bool {
	exit := (*exec.ExitError)(nil)
	return err == nil || errors.As(err, &exit) && exit.Exited()
}

// firstError is the line of the standard error that tells the problem.
func firstError(stderr string, err error) string {
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "error: "); ok {
			return text
		}
	}
	return fmt.Sprint(err)
}

// first is the first error that is one.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
