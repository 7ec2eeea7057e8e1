// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// binary is the kube-migrator that all tests run, built from this tree.
var binary string

func TestMain(m *testing.M) { os.Exit(testbed.RunTests(m, &binary, false)) }

// cli runs kube-migrator as one user of one machine.
type cli struct {
	t       *testing.T
	cluster *testbed.Cluster
	env     []string
	state   string
}

// newCLI returns a user whose kubeconfig points at the cluster's first API server.
func newCLI(t *testing.T, cluster *testbed.Cluster) *cli {
	t.Helper()
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	return newCLIWith(t, cluster, kubeconfig)
}

func newCLIWith(t *testing.T, cluster *testbed.Cluster, kubeconfig string) *cli {
	state := t.TempDir()
	return &cli{t: t, cluster: cluster, state: state,
		env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "XDG_STATE_HOME="+state)}
}

// output is what a command left.
type output struct {
	code           int
	stdout, stderr string
}

// start begins a command; its output is complete when the returned function has returned.
func (c *cli) start(args ...string) (*exec.Cmd, func() output) {
	c.t.Helper()
	command := c.cluster.Command(context.WithoutCancel(c.t.Context()), binary, args...)
	command.Env = c.env
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	waited := false
	c.t.Cleanup(func() {
		if !waited {
			command.Process.Kill() //nolint:errcheck // it may have ended
			command.Wait()         //nolint:errcheck // killed
		}
	})
	return command, func() output {
		c.t.Helper()
		err := command.Wait()
		waited = true
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			c.t.Fatal(err)
		}
		return output{code: command.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	}
}

// run runs a command and expects an exit code.
func (c *cli) run(code int, args ...string) output {
	c.t.Helper()
	_, wait := c.start(args...)
	out := wait()
	if out.code != code {
		c.t.Fatalf("kube-migrator %s: exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "),
			out.code, code, out.stdout, out.stderr)
	}
	return out
}

// migrate runs `migrate -o json` with a short settle time and returns the report on the one resource.
func (c *cli) migrate(code int, args ...string) render.Migration {
	c.t.Helper()
	return report(c.t, c.run(code, append([]string{"migrate", "--settle-time=1s", "-o", "json", anyRate, anyInFlight},
		args...)...))
}

// Arguments of migrate without which a migration of thousands of objects would last minutes.
const (
	anyRate     = "--max-rate=0"
	anyInFlight = "--max-in-flight=0"
)

func report(t *testing.T, out output) render.Migration {
	t.Helper()
	var all render.Migrations
	if err := json.Unmarshal([]byte(out.stdout), &all); err != nil || len(all.Resources) != 1 {
		t.Fatalf("report on one resource: %v\n%s\n%s", err, out.stdout, out.stderr)
	}
	return all.Resources[0]
}

// succeeded is the report on one resource of a command that ended well.
func succeeded(t *testing.T, out output) render.Migration {
	t.Helper()
	if out.code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	return report(t, out)
}

// refused runs a command that must end with exit code 1 or 2, nothing on stdout and the two lines of an error, and
// returns what the lines say.
func (c *cli) refused(args ...string) (what, try string) {
	c.t.Helper()
	_, wait := c.start(args...)
	out := wait()
	lines := strings.Split(strings.TrimSuffix(out.stderr, "\n"), "\n")
	if (out.code != 1 && out.code != 2) || out.stdout != "" || len(lines) != 2 ||
		!strings.HasPrefix(lines[0], "error: ") || !strings.HasPrefix(lines[1], "Try: ") {
		c.t.Fatalf("kube-migrator %s: exit code %d, want 1 or 2 and two lines of error\nstdout:\n%s\nstderr:\n%s",
			strings.Join(args, " "), out.code, out.stdout, out.stderr)
	}
	return strings.TrimPrefix(lines[0], "error: "), strings.TrimPrefix(lines[1], "Try: ")
}

// wantCounts compares all but how often requests were repeated, which depends on how busy the machine is.
func wantCounts(t *testing.T, want migrate.Counts, got render.Migration) {
	t.Helper()
	counts := got.Result.Counts
	counts.Retried = want.Retried
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// path is where the programs of these tests are, before others.
func (c *cli) path() string { return filepath.Dir(binary) + ":" + os.Getenv("PATH") }

// shell runs a printed command line as a user who copies it into a shell.
func (c *cli) shell(code int, line string) output {
	c.t.Helper()
	command := c.cluster.Command(c.t.Context(), "sh", "-c", line)
	command.Env = append(slices.Clone(c.env), "PATH="+c.path())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() != code {
		c.t.Fatalf("%s: %v, want exit code %d\nstdout:\n%s\nstderr:\n%s", line, err, code,
			stdout.String(), stderr.String())
	}
	return output{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// kubectl runs kubectl as the same user, and expects it to succeed.
func (c *cli) kubectl(args ...string) {
	c.t.Helper()
	kubectl, err := testbed.Binary(c.t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		c.t.Fatal(err)
	}
	command := c.cluster.Command(c.t.Context(), kubectl, args...)
	command.Env = c.env
	if out, err := command.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
