// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Program is a process that a test starts where the cluster is, such as a controller. It ends with this process at the
// latest, however that ends. It is safe for concurrent use.
type Program struct{ process *process }

// ProgramOptions describe a Program.
type ProgramOptions struct {
	// Name names the log, NAME.log in the cluster's folder. Programs of one name append to one log.
	Name string
	// Path is the path of the binary, and Args are its arguments.
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Group is the group ID of the process, by which a packet filter can tell its connections from others. 0: that of
	// this process.
	Group int
}

// Launch starts a program in the cluster's network namespace. The caller ends it; Stop does not.
func (c *Cluster) Launch(o ProgramOptions) (*Program, error) {
	p := &process{name: o.Name, log: filepath.Join(c.dir, o.Name+".log"), done: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p.cmd = exec.Command(o.Path, o.Args...) //nolint:noctx // it lives until it is ended, whatever becomes of the context of its caller
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if o.Group != 0 {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(os.Getuid()),
			Gid: uint32(o.Group), NoSetGroups: true}
	}
	started := make(chan error, 1)
	go p.run(c.ns, "", started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	return &Program{process: p}, nil
}

// Done is closed when the process has exited.
func (p *Program) Done() <-chan struct{} { return p.process.done }

// Running tells whether the process lives.
func (p *Program) Running() bool { return p.process.running() }

// Succeeded tells whether the process has exited with code 0.
func (p *Program) Succeeded() bool { return !p.Running() && p.process.cmd.ProcessState.Success() }

// Exit returns how the process has ended, or "" while it runs.
func (p *Program) Exit() string {
	if p.Running() {
		return ""
	}
	return p.process.exit
}

// Signal sends a signal and does not wait for its effect. A process that has exited gets none.
func (p *Program) Signal(signal syscall.Signal) {
	if p.Running() {
		_ = p.process.cmd.Process.Signal(signal) // it may have exited meanwhile
	}
}

// Kill ends the process as a crash would (SIGKILL) and waits for its end.
func (p *Program) Kill() { p.process.kill() }

// Terminate asks the process to end (SIGTERM) and waits. When the context ends first, the process is killed.
func (p *Program) Terminate(ctx context.Context) { _ = p.process.terminate(ctx) } // killed or not, it has ended

// RunTests builds kube-migrator from this tree into a folder that does not outlive the tests, stores the path of the
// binary, and runs the tests. With movable, a Clock can move its clock. It returns the exit code of the test process.
// Under -short, nothing is built, because no cluster starts either.
func RunTests(m *testing.M, binary *string, movable bool) (code int) {
	if flag.Parse(); testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "kube-migrator-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	*binary = filepath.Join(dir, "kube-migrator")
	ctx := context.Background() //nolint:forbidigo // a TestMain has none
	if err := buildProgram(ctx, dir, *binary, movable); err != nil {
		fmt.Fprintf(os.Stderr, "build kube-migrator: %v\n", err)
		return 1
	}
	return m.Run()
}

func buildProgram(ctx context.Context, dir, output string, movable bool) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-tags=grpcnotrace", "-o", output}
	if movable {
		overlay, err := ClockOverlay(ctx, dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./kube-migrator")...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
