// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	migrations   = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	installation = "kube-migrator"
	widgetsName  = "widgets." + testbed.WidgetGroup

	// patience is how long a test waits for what has to happen. It is a guard against hanging, and no requirement:
	// tests run at the same time, and a sweep next to busy API servers is slow on purpose.
	patience = 5 * time.Minute
)

// controlled is a cluster with the API of migrations, and controllers that run in processes of their own.
type controlled struct {
	*testing.T
	cluster    *testbed.Cluster
	kubeconfig string
}

// newControlled prepares a cluster; no controller runs yet.
func newControlled(t *testing.T, cluster *testbed.Cluster) *controlled {
	t.Helper()
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	c := &controlled{T: t, cluster: cluster, kubeconfig: kubeconfig}
	if err := cluster.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	do(t, cluster, http.MethodPost, "/api/v1/namespaces",
		map[string]any{"metadata": map[string]any{"name": installation}})
	return c
}

// behindProxy puts a proxy between the cluster and the controllers that are started from now on.
func (c *controlled) behindProxy() *testbed.Proxy {
	c.Helper()
	proxy := testbed.NewProxy(c.T, c.cluster)
	var err error
	if c.kubeconfig, err = proxy.Kubeconfig(); err != nil {
		c.Fatal(err)
	}
	return proxy
}

// process is a controller.
type process struct {
	*exec.Cmd
	log string
}

// controller starts one whose workers are in its process, with short times. It is killed when the test ends.
func (c *controlled) controller(arguments ...string) *process {
	c.Helper()
	p := c.launch(arguments...)
	c.Cleanup(func() {
		p.Process.Kill() //nolint:errcheck // it may have ended
		p.Wait()         //nolint:errcheck // killed
		c.show(p)
	})
	return p
}

// show logs what a controller said, if the test failed.
func (c *controlled) show(p *process) {
	if c.Failed() {
		raw, _ := os.ReadFile(p.log) // as much as there is
		c.Logf("controller %d:\n%s", p.Process.Pid, raw)
	}
}

// launch starts a controller for someone who sees to its end.
func (c *controlled) launch(arguments ...string) *process {
	c.Helper()
	log := filepath.Join(c.TempDir(), "controller.log")
	out, err := os.Create(log)
	if err != nil {
		c.Fatal(err)
	}
	defer out.Close()
	arguments = append([]string{
		"controller", "--workers=in-process", "--auto-trigger=false", "--settle-time=1s", "--retry-after=2s",
		"--lease-duration=10s",
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}, arguments...)
	p := &process{Cmd: c.cluster.Command(context.WithoutCancel(c.Context()), binary, arguments...), log: log}
	p.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	p.Stdout, p.Stderr = out, out
	if err := p.Start(); err != nil {
		c.Error(err)
	}
	return p
}

// supervise starts a controller and, as a Deployment would, another whenever one ends, until the test does.
func (c *controlled) supervise(arguments ...string) {
	c.Helper()
	c.TempDir() // is removed after the cleanup below, which reads logs in it
	ctx, stop := context.WithCancel(c.Context())
	var supervisor sync.WaitGroup
	supervisor.Go(func() {
		for ctx.Err() == nil {
			p := c.launch(arguments...)
			release := context.AfterFunc(ctx, func() { p.Process.Kill() }) //nolint:errcheck // it may have ended
			p.Wait()                                                       //nolint:errcheck // it may end in whatever way
			release()
			c.show(p)
		}
	})
	c.Cleanup(func() {
		stop()
		supervisor.Wait()
	})
}

// end tells a controller to end and returns how long it took.
func (c *controlled) end(p *process) time.Duration {
	c.Helper()
	begin := time.Now()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		c.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		c.Errorf("the controller ended with %v", err)
	}
	return time.Since(begin)
}

// ask creates a migration of the widgets.
func (c *controlled) ask(spec v1alpha1.StorageVersionMigrationSpec) {
	c.Helper()
	if spec.Resource.Resource == "" {
		spec.Resource = v1alpha1.GroupVersionResource{Group: testbed.WidgetGroup, Resource: "widgets"}
	}
	name := spec.Resource.Resource
	if spec.Resource.Group != "" {
		name += "." + spec.Resource.Group
	}
	do(c.T, c.cluster, http.MethodPost, migrations, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": name}, "spec": spec,
	})
}

// change patches a migration.
func (c *controlled) change(name, patch string) {
	c.Helper()
	status, answer, err := c.cluster.Servers[0].Do(c.Context(), http.MethodPatch, migrations+"/"+name, []byte(patch))
	if err != nil || status != http.StatusOK {
		c.Fatalf("patch %s: %d %s (%v)", name, status, answer, err)
	}
}

// read returns a migration; its error is that of an API server that does not answer, or 404.
func (c *controlled) read(name string) (*v1alpha1.StorageVersionMigration, error) {
	status, answer, err := c.cluster.Servers[0].Do(c.Context(), http.MethodGet, migrations+"/"+name, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, answer)
	}
	m := new(v1alpha1.StorageVersionMigration)
	return m, json.Unmarshal(answer, m)
}

// until waits until a migration is as wanted, and returns it.
func (c *controlled) until(name, what string, is func(*v1alpha1.StorageVersionMigration) bool) *v1alpha1.StorageVersionMigration {
	c.Helper()
	deadline := time.Now().Add(patience)
	for {
		m, err := c.read(name)
		if err == nil && is(m) {
			return m
		}
		if time.Now().After(deadline) {
			raw, _ := json.MarshalIndent(m, "", " ") // for users
			c.Fatalf("not within %v: %s (%v)\n%s", patience, what, err, raw)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func inPhase(phase v1alpha1.Phase) func(*v1alpha1.StorageVersionMigration) bool {
	return func(m *v1alpha1.StorageVersionMigration) bool { return m.Status.State == phase }
}

// rewrote waits until some of the widgets are stored again, and returns how many.
func (c *controlled) rewrote(least int) int {
	c.Helper()
	n := 0
	eventually(c.T, fmt.Sprintf("%d widgets are rewritten", least), func() bool {
		n = stored(c.T, c.cluster, testbed.WidgetsPrefix)[v2]
		return n >= least
	})
	return n
}

// wantStill fails if a widget is rewritten from 2 seconds from now on.
func (c *controlled) wantStill(since string) int {
	c.Helper()
	time.Sleep(2 * time.Second)
	before := stored(c.T, c.cluster, testbed.WidgetsPrefix)[v2]
	time.Sleep(3 * time.Second)
	if after := stored(c.T, c.cluster, testbed.WidgetsPrefix)[v2]; after != before {
		c.Errorf("%d widgets were rewritten later than 2 s after %s", after-before, since)
	}
	return before
}

// checkpoints are the names of the ConfigMaps of runs.
func (c *controlled) checkpoints() []string {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"items"`
	}
	get(c.T, c.cluster, "/api/v1/namespaces/"+installation+
		"/configmaps?labelSelector=app.kubernetes.io/component%3Dworker", &list)
	var names []string
	for _, item := range list.Items {
		if !strings.HasSuffix(item.Metadata.Name, "-roster") {
			names = append(names, item.Metadata.Name)
		}
	}
	return names
}
