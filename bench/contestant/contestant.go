// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Names of the contestants, as tables and JSON have them.
const (
	ours     = "kube-migrator"
	inTree   = "in-tree"
	external = "kube-storage-version-migrator"
	ceiling  = "ceiling"
)

// contestant is something that rewrites all widgets.
type contestant struct {
	name string
	// run rewrites n objects and returns when it is done; the kubeconfig leads to the cluster. watch is told the
	// process that works.
	run func(ctx context.Context, l *lab, kubeconfig string, n int, watch func(pid int)) error
}

// kubeMigrator is the binary at path, at full speed.
func kubeMigrator(path string) contestant {
	return contestant{name: ours, run: func(ctx context.Context, l *lab, kubeconfig string, _ int, watch func(int)) error {
		return finish(ctx, l, watch, path, "migrate", testbed.WidgetCRD, "--kubeconfig="+
			kubeconfig, "--settle-time=1s")
	}}
}

// generator is this program, sending nothing but the requests, so many at a time.
func generator(concurrency int) contestant {
	return contestant{name: ceiling, run: func(ctx context.Context, l *lab, kubeconfig string, n int, watch func(int)) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return finish(ctx, l, watch, self, "generate", "--kubeconfig="+kubeconfig, "--prefix="+l.prefix,
			"--count="+strconv.Itoa(n), "--concurrency="+strconv.Itoa(concurrency))
	}}
}

// finish runs a command to its end.
func finish(ctx context.Context, l *lab, watch func(int), path string, args ...string) error {
	c, err := start(ctx, l, watch, path, args...)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.failure()
	case <-ctx.Done():
		c.stop()
		return ctx.Err()
	}
}

// child is a process of a contestant. It does not outlive this one.
type child struct {
	cmd    *exec.Cmd
	output bytes.Buffer // complete once done is closed
	done   chan struct{}
	err    error
}

func start(ctx context.Context, l *lab, watch func(int), path string, args ...string) (*child, error) {
	c := &child{cmd: l.cluster.Command(ctx, path, args...), done: make(chan struct{})}
	// A home of the cluster's own: nothing is left in, or taken from, that of the person who measures.
	c.cmd.Env = append(os.Environ(), "HOME="+l.cluster.Dir(), "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "KUBECONFIG=")
	c.cmd.Stdout, c.cmd.Stderr = io.Discard, &c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(path), err)
	}
	watch(c.cmd.Process.Pid)
	go func() {
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// stop ends the process and waits for it.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.done
}

// failure says why a process that has ended failed, with the end of what it said; nil if it did not.
func (c *child) failure() error {
	if c.err == nil {
		return nil
	}
	said := bytes.TrimSpace(c.output.Bytes())
	return fmt.Errorf("run %s: %w\n%s", filepath.Base(c.cmd.Path), c.err, said[max(0, len(said)-2000):])
}

// poll asks until the answer is yes, the process has ended, or the context is over.
func (c *child) poll(ctx context.Context, ask func() (bool, error)) error {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		if done, err := ask(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return errors.Join(errors.New("it ended by itself"), c.failure())
		case <-ticker.C:
		}
	}
}
