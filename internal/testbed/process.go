// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The reasons why a process did not start. errors.Is finds them in a *StartError.
var (
	// ErrExitedEarly means that the process ended before it was ready.
	ErrExitedEarly = errors.New("exited early")
	// ErrNotReady means that the process runs, but was not ready in time.
	ErrNotReady = errors.New("not ready in time")
)

// StartError says why a process did not become ready, and contains the end of its log.
type StartError struct {
	// Process is the name of the process, such as "kube-apiserver-0".
	Process string
	// Reason is ErrExitedEarly, ErrNotReady, or the error of the context that ended the wait.
	Reason error
	// Detail is the exit status of a process that exited, and the last answer to the question whether it is ready
	// otherwise.
	Detail string
	// LogTail holds the last lines of the log.
	LogTail string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %s: %v: %s\n%s", e.Process, e.Reason, e.Detail, e.LogTail)
}

func (e *StartError) Unwrap() error { return e.Reason }

// garbage makes the processes collect their garbage less often than by default: a sixth less CPU for somewhat more
// memory.
const garbage = "GOGC=300"

// logTailLines is how much of a log an error shows.
const logTailLines = 25

// process is a child that does not outlive this process, however this process ends: the kernel kills it when the thread
// that started it ends (PR_SET_PDEATHSIG), and that thread is kept until the child has exited.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	exit string
}

// launch starts a command in a namespace (nil for this process's own) under a host name ("" to keep it), appending its
// output to a log.
func launch(ns *namespace, hostname, name, log, path string, args ...string) (*process, error) {
	return launchWith(nil, ns, hostname, name, log, path, args...)
}

// launchWith is launch with an addition to the environment.
func launchWith(env []string, ns *namespace, hostname, name, log, path string, args ...string) (*process, error) {
	death := syscall.SIGKILL
	if ns.hasProcesses() {
		death = 0 // the kernel ends the process with the first one of its PID namespace
	}
	return launchUntil(death, env, ns, hostname, name, log, path, args...)
}

// launchUntil is launch with another signal that the child gets when this process ends.
func launchUntil(death syscall.Signal, env []string, ns *namespace, hostname, name, log, path string,
	args ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{name: name, log: log, done: make(chan struct{})}
	p.cmd = exec.Command(path, args...) //nolint:noctx // it lives until it is stopped, whatever becomes of the context
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(append(os.Environ(), garbage), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: death, Setpgid: true}
	started := make(chan error, 1)
	go p.run(ns, hostname, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// run is the child's own thread. It is never unlocked: it ends with this goroutine, after the child, and takes its
// namespaces with it.
func (p *process) run(ns *namespace, hostname string, started chan<- error) {
	runtime.LockOSThread()
	err := ns.enter(hostname)
	if err == nil {
		err = p.cmd.Start()
	}
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait()
	p.exit = p.cmd.ProcessState.String()
	close(p.done)
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the process at once, as a crash would.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// terminate asks the process to end and waits for it; when the context ends first, it is killed and the context's error
// returned.
func (p *process) terminate(ctx context.Context) error {
	if !p.running() {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.kill()
		return fmt.Errorf("stop %s: %w\n%s", p.name, ctx.Err(), p.tail())
	}
}

func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return lastLines(raw, logTailLines)
}

// await asks again and again whether the process is ready, until it is, it has exited, or the time is over. ready is
// given a context that bounds one question.
func (p *process) await(ctx context.Context, limit time.Duration, ready func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, stop := context.WithTimeout(bounded, 5*time.Second)
		err := ready(once)
		stop()
		if err == nil && p.running() {
			return nil
		}
		detail := fmt.Sprint(err)
		select {
		case <-p.done:
			return &StartError{Process: p.name, Reason: ErrExitedEarly, Detail: p.exit, LogTail: p.tail()}
		case <-bounded.Done():
			reason := ErrNotReady
			if ctx.Err() != nil {
				reason = ctx.Err()
			} else {
				detail = fmt.Sprintf("after %s: %s", limit, detail)
			}
			return &StartError{Process: p.name, Reason: reason, Detail: detail, LogTail: p.tail()}
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// Usage contains the resources that a process has used since its start.
type Usage struct {
	// CPU is user and system time together.
	CPU time.Duration
	// RSSBytes is the resident set now, and PeakRSSBytes the largest so far.
	RSSBytes, PeakRSSBytes int64
}

// clockTick is the unit of CPU times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// usage reads /proc, so only a running process has one.
func (p *process) usage() (Usage, error) {
	if !p.running() {
		return Usage{}, fmt.Errorf("read usage of %s: it does not run", p.name)
	}
	return UsageOf(p.cmd.Process.Pid)
}

// UsageOf returns the resources that a running process has used since its start. The testbed need not have started it.
func UsageOf(pid int) (Usage, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return Usage{}, err
	}
	// The second field, the command in parentheses, may hold spaces; utime and stime are the 12th and 13th after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, err
		}
		ticks += n
	}
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPU: time.Duration(ticks) * clockTick}
	for line := range strings.Lines(string(status)) {
		for prefix, into := range map[string]*int64{"VmRSS:": &u.RSSBytes, "VmHWM:": &u.PeakRSSBytes} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					return Usage{}, err
				}
				*into = kib * 1024
			}
		}
	}
	return u, nil
}
