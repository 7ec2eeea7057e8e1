// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// wantUnwritten expects that a proxy has seen nothing that could have written anything.
func wantUnwritten(t *testing.T, proxy *testbed.Proxy) {
	t.Helper()
	for _, r := range proxy.Records() {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.Path, "/selfsubjectaccessreviews") {
			t.Errorf("sent %s %s, want nothing written", r.Method, r.Path)
		}
	}
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

// revisions maps every key below a prefix to the revision that wrote it: nothing can be written without one of them
// moving.
func revisions(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	if err := cluster.EachRaw(t.Context(), prefix, func(key string, _ []byte,
		revision int64) {
		all[key] = revision
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func wantUnmoved(t *testing.T, cluster *testbed.Cluster, prefix string, before map[string]int64) {
	t.Helper()
	if after := revisions(t, cluster, prefix); !maps.Equal(before, after) {
		t.Errorf("objects below %s were written (-want +got):\n%s", prefix, cmp.Diff(before, after))
	}
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

func wantClaimed(t *testing.T, cluster *testbed.Cluster, want ...string) {
	t.Helper()
	if claimed := storedVersions(t, cluster); !slices.Equal(claimed, want) {
		t.Errorf("storedVersions = %v, want %v", claimed, want)
	}
}

// wantPreserved expects that no object was created, deleted or changed (I3).
func wantPreserved(t *testing.T, cluster *testbed.Cluster, prefix string, before testbed.Snapshot) {
	t.Helper()
	if changes := before.Diff(snapshot(t, cluster, prefix)); !changes.None() {
		t.Errorf("the migration changed objects (I3): %+v", changes)
	}
}

// create creates objects at a path through the API, each named by its number.
func create(t *testing.T, cluster *testbed.Cluster, path, apiVersion, kind, name string, n int, fields map[string]any) {
	t.Helper()
	for i := range n {
		object := maps.Clone(fields)
		object["apiVersion"], object["kind"] = apiVersion, kind
		object["metadata"] = map[string]any{"name": fmt.Sprintf("%s-%03d", name, i)}
		do(t, cluster, http.MethodPost, path, object)
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
