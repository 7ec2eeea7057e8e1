// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

// terminal is what the reader looks at: prose, commands and their output.
type terminal struct {
	out, err *os.File
	bold     bool
	chapters int
	// programs maps the names that commands are shown with to the files that are run.
	programs map[string]string
	// migrator is the content of kube-migrator until it has been copied.
	migrator []byte
	// dir is the folder that commands run in, env their environment.
	dir string
	env []string
}

// newTerminal finds the programs, so that one that is missing is missed before anything is started.
func newTerminal(ctx context.Context, out, err *os.File, binary string) (*terminal, error) {
	kubectl, failed := testbed.Binary(ctx, testbed.Newest, "kubectl", err)
	if failed != nil {
		return nil, failed
	}
	t := &terminal{out: out, err: err, bold: term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == ""}
	t.programs = map[string]string{"kubectl": kubectl}
	if t.migrator, failed = os.ReadFile(binary); failed != nil {
		return nil, fmt.Errorf("read kube-migrator: %w\nTry: make build", failed)
	}
	return t, nil
}

// enter makes commands run as an administrator of the cluster would run them, with everything that they keep
// (checkpoints, caches) in the cluster's folder.
func (t *terminal) enter(cluster *testbed.Cluster) error {
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		return err
	}
	t.dir = filepath.Join(cluster.Dir(), "home")
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return fmt.Errorf("make home folder: %w", err)
	}
	// A copy, because the original may be built again while the demo runs.
	t.programs["kube-migrator"] = filepath.Join(cluster.Dir(), "kube-migrator")
	if err := os.WriteFile(t.programs["kube-migrator"], t.migrator, 0o700); err != nil {
		return fmt.Errorf("copy kube-migrator: %w", err)
	}
	t.migrator = nil
	t.env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.dir, "XDG_STATE_HOME="+
		t.dir, "KUBECACHEDIR="+t.dir)
	t.say("\n$ export KUBECONFIG=" + kubeconfig)
	return nil
}

func (t *terminal) chapter(title string) {
	t.chapters++
	title = fmt.Sprintf("%d. %s", t.chapters, title)
	if t.bold {
		title = "\x1b[1m" + title + "\x1b[0m"
	}
	fmt.Fprintf(t.out, "\n%s\n", title)
}

func (t *terminal) say(text string) { fmt.Fprintln(t.out, text) }

// command is one line that a person could type.
type command struct {
	line []string
	// exit is the expected exit code, and why the reason for one that is not 0.
	exit int
	why  string
	// anyExit goes on whatever the exit code is: the story looks at what came of it.
	anyExit bool
	// shown tells which lines of standard output to show (nil: all), and rest says what the others are.
	shown func(i int, line string) bool
	rest  string
	// into names a file in the commands' folder that takes standard output, as > does.
	into string
}

// run shows a command, runs it and shows what it says. It returns the standard output of a command with shown or into.
// An unexpected exit code is an error.
func (t *terminal) run(ctx context.Context, c command) ([]byte, error) {
	text := quote(c.line)
	if c.into != "" {
		text += " > " + c.into
	}
	fmt.Fprintf(t.out, "\n$ %s\n", text)
	process := exec.CommandContext(ctx, t.programs[c.line[0]], c.line[1:]...)
	process.Dir, process.Env = t.dir, t.env
	// Own group: Ctrl-C reaches the demo alone, which then ends its child. The child ends with the demo even if that is
	// killed.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	process.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	if c.shown == nil && c.into == "" {
		process.Stdout, process.Stderr = t.out, t.err // unaltered, so that it can see that this is a terminal
	} else {
		process.Stdout, process.Stderr = &stdout, &stderr
	}
	runtime.LockOSThread() // Pdeathsig is about the thread that starts the child
	err := process.Run()
	runtime.UnlockOSThread()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("run %s: %w", text, ctx.Err())
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("run %s: %w", text, err)
	}
	if c.into == "" {
		t.show(stdout.String(), c)
	} else if err := os.WriteFile(filepath.Join(t.dir, c.into), stdout.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("write output: %w", err)
	}
	fmt.Fprint(t.err, stderr.String())
	code := process.ProcessState.ExitCode()
	switch {
	case c.anyExit && code != 0:
		fmt.Fprintf(t.out, "(exit code %d)\n", code)
		return stdout.Bytes(), nil
	case !c.anyExit && code != c.exit:
		return nil, fmt.Errorf("%s: exit code %d, want %d", text, code, c.exit)
	case code != 0:
		fmt.Fprintf(t.out, "(exit code %d: %s)\n", code, c.why)
	}
	return stdout.Bytes(), nil
}

// show writes the lines that the command wants shown and counts the others.
func (t *terminal) show(output string, c command) {
	i, hidden := 0, 0
	for line := range strings.Lines(output) {
		if c.shown == nil || c.shown(i, line) {
			fmt.Fprintln(t.out, strings.TrimRight(line, "\n"))
		} else {
			hidden++
		}
		i++
	}
	if hidden > 0 {
		fmt.Fprintf(t.out, "… %s more lines%s\n", render.Count(int64(hidden)), c.rest)
	}
}

// width is where prose that is made at run time is wrapped.
const width = 100

// wrap breaks a text into lines at spaces.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// all shows every line of a command whose output the story reads.
func all(int, string) bool { return true }

// first shows the first n lines.
func first(n int) func(int, string) bool { return func(i int, _ string) bool { return i < n } }

// quote writes a command as a shell would read it.
func quote(line []string) string {
	words := make([]string, len(line))
	for i, word := range line {
		words[i] = shell.Quote(word)
	}
	return strings.Join(words, " ")
}
