// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// Process is a process of a contestant. It does not outlive this one.
type Process struct {
	cmd    *exec.Cmd
	output bytes.Buffer // complete once done is closed
	done   chan struct{}
	err    error
}

// Finish runs a command to its end.
func Finish(ctx context.Context, l *lab.Lab, watch func(int), path string, args ...string) error {
	p, err := Start(ctx, l, watch, path, args...)
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

// Start starts a command where the cluster is.
func Start(ctx context.Context, l *lab.Lab, watch func(int), path string, args ...string) (*Process, error) {
	return startWith(ctx, l, watch, nil, nil, path, args...)
}

// startWith is Start with standard input and output; nil is none.
func startWith(ctx context.Context, l *lab.Lab, watch func(int), in, out *os.File, path string,
	args ...string) (*Process, error) {
	p := &Process{cmd: l.Cluster.Command(ctx, path, args...), done: make(chan struct{})}
	// A home of the cluster's own: nothing is left in, or taken from, that of the person who measures.
	p.cmd.Env = append(os.Environ(), "HOME="+l.Cluster.Dir(), "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "KUBECONFIG=")
	p.cmd.Stderr = &p.output
	if in != nil {
		p.cmd.Stdin = in
	}
	if out != nil {
		p.cmd.Stdout = out
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	watch(p.cmd.Process.Pid)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Wait waits for the end of the process; when the context ends first, it ends the process.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.failure()
	case <-ctx.Done():
		p.Stop()
		return ctx.Err()
	}
}

// Stop ends the process at once and waits for its end.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// failure says why a process that has ended failed, with the end of its output; nil if it did not.
func (p *Process) failure() error {
	if p.err == nil {
		return nil
	}
	output := bytes.TrimSpace(p.output.Bytes())
	return fmt.Errorf("run %s: %w\n%s", filepath.Base(p.cmd.Path), p.err, output[max(0, len(output)-2000):])
}

// ExitCode returns the exit code of the process that an error is about; 0 if it is about none.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

// Await asks until the answer is yes; it is an error if the process ends first.
func (p *Process) Await(ctx context.Context, ask func() (bool, error)) error {
	return lab.Await(ctx, func() (bool, error) {
		select {
		case <-p.done:
			return false, errors.Join(errors.New("it ended by itself"), p.failure())
		default:
			return ask()
		}
	})
}
