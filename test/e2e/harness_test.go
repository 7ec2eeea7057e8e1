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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
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
	return report(c.t, c.run(code, append([]string{"migrate", "--settle-time=1s", "-o", "json"}, args...)...))
}

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

// stored counts what etcd holds below a prefix by version.
func stored(t *testing.T, cluster *testbed.Cluster, prefix string) map[string]int {
	t.Helper()
	versions, err := cluster.StoredVersions(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

func wantStored(t *testing.T, cluster *testbed.Cluster, prefix string, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, stored(t, cluster, prefix)); diff != "" {
		t.Errorf("etcd below %s (-want +got):\n%s", prefix, diff)
	}
}

func snapshot(t *testing.T, cluster *testbed.Cluster, prefix string) testbed.Snapshot {
	t.Helper()
	s, err := cluster.Snapshot(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// retireManagers writes into etcd that a widget's fields are managed in a version that is not there any more. Then the
// API server drops that with any write.
func retireManagers(t *testing.T, cluster *testbed.Cluster, name string) {
	t.Helper()
	var key string
	var widget map[string]any
	err := cluster.EachRaw(t.Context(), testbed.WidgetsPrefix, func(found string, value []byte, _ int64) {
		if strings.HasSuffix(found, "/"+name) {
			key = found
			decode(t, value, &widget)
		}
	})
	if err != nil || widget == nil {
		t.Fatalf("read widget %s: %v", name, err)
	}
	metadata, _ := widget["metadata"].(map[string]any)
	metadata["managedFields"] = []any{map[string]any{
		"manager": "old", "operation": "Update", "apiVersion": testbed.WidgetGroup + "/v0",
		"time":       "2020-01-01T00:00:00Z",
		"fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:color": map[string]any{}}},
	}}
	if err := cluster.PutRaw(t.Context(), key, mustJSON(widget)); err != nil {
		t.Fatal(err)
	}
}

// storedVersions reads what the CRD of the widgets claims.
func storedVersions(t *testing.T, cluster *testbed.Cluster) []string {
	t.Helper()
	return widgetCRD(t, cluster).Status.StoredVersions
}

// widgetCRD reads the CRD of the widgets.
func widgetCRD(t *testing.T, cluster *testbed.Cluster) (d apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	get(t, cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+testbed.WidgetCRD, &d)
	return d
}

func get(t *testing.T, cluster *testbed.Cluster, path string, into any) {
	t.Helper()
	decode(t, do(t, cluster, "GET", path, nil), into)
}

// do sends a request as administrator and expects it to succeed.
func do(t *testing.T, cluster *testbed.Cluster, method, path string, body any) []byte {
	t.Helper()
	var raw []byte
	if body != nil {
		raw = mustJSON(body)
	}
	status, answer, err := cluster.Servers[0].Do(t.Context(), method, path, raw)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %s (%v)", method, path, status, answer, err)
	}
	return answer
}

// mustJSON is for values that a test made itself.
func mustJSON(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("decode %T: %v\n%s", into, err, raw)
	}
}

// staleWidgets makes a cluster that stores n widgets as v1 while their storage version is v2.
func staleWidgets(t *testing.T, n int, widgets testbed.Widgets) *testbed.Cluster {
	t.Helper()
	cluster := testbed.New(t, testbed.Options{})
	installStale(t, cluster, testbed.Bulk{Count: n}, widgets)
	return cluster
}

func installStale(t *testing.T, cluster *testbed.Cluster, bulk testbed.Bulk, widgets testbed.Widgets) {
	t.Helper()
	if err := cluster.InstallWidgets(t.Context(), widgets); err != nil {
		t.Fatal(err)
	}
	if err := cluster.BulkCreate(t.Context(), bulk); err != nil {
		t.Fatal(err)
	}
	moveStorage(t, cluster, "v2")
}

func moveStorage(t *testing.T, cluster *testbed.Cluster, version string) {
	t.Helper()
	if err := cluster.MoveStorage(t.Context(), testbed.WidgetCRD, version); err != nil {
		t.Fatal(err)
	}
}

const (
	v1 = testbed.WidgetGroup + "/v1"
	v2 = testbed.WidgetGroup + "/v2"
)

// eventually waits until a condition holds. It asks seldom where asking is expensive, as it is to read thousands of
// objects, and leaves the machine to what it waits for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		begin := time.Now()
		if holds() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(max(50*time.Millisecond, 6*time.Since(begin)))
	}
}
