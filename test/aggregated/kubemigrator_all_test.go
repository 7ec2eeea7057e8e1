// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// controller starts kube-migrator with short times; it ends with the test at the latest.
func (f *fleet) controller(arguments ...string) *testbed.Program {
	f.Helper()
	p, err := f.cluster.Launch(testbed.ProgramOptions{
		Name: "controller", Path: binary, Env: []string{"KUBECONFIG=" + f.kubeconfig},
		Args: append([]string{
			"controller", "--workers=in-process", "--include=" + gearsName, "--bootstrap=all", "--settle-time=2s",
			"--retry-after=2s", "--shutdown-delay=10s", "--discovery-period=5s", "--lease-duration=10s",
			"--metrics-bind-address=0", "--health-probe-bind-address=0",
		}, arguments...),
	})
	if err != nil {
		f.Fatal(err)
	}
	whole := f.whole
	whole.Cleanup(func() {
		p.Kill()
		if whole.Failed() {
			raw, _ := os.ReadFile(filepath.Join(f.cluster.Dir(), "controller.log")) // as much as there is
			whole.Logf("controller:\n%s", raw)
		}
	})
	return p
}

// state is the StorageState; its zero value where there is none.
func (f *fleet) state() (s v1alpha1.StorageState) {
	f.Helper()
	code, raw, err := f.cluster.Servers[0].Do(f.Context(), http.MethodGet,
		"/apis/migration.k8s.io/v1alpha1/storagestates/"+gearsName, nil)
	if err == nil && code == http.StatusOK {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil || code != http.StatusOK && code != http.StatusNotFound {
		f.Fatalf("%d %v: %s", code, err, raw)
	}
	return s
}

// proven waits until the StorageState has one version alone.
func (f *fleet) proven(version, evidence string) v1alpha1.StorageState {
	f.Helper()
	return f.provenAs(gears.Hash(version), evidence)
}

// provenAs is proven for a version by its hash.
func (f *fleet) provenAs(hash, evidence string) (s v1alpha1.StorageState) {
	f.Helper()
	f.eventually(hash+" is proven, and "+evidence, func() bool {
		s = f.state()
		return slices.Equal(s.Status.PersistedStorageVersionHashes, []string{hash}) &&
			s.Status.CurrentStorageVersionHash == hash && s.Status.Evidence == evidence
	})
	return s
}

// writeConstantly writes gears through the aggregator until the test ends, or stop is called.
func (f *fleet) writeConstantly() (stop func() (written int64)) {
	ctx, cancel := context.WithCancel(f.Context())
	var work sync.WaitGroup
	var written atomic.Int64
	send := func(method, path string, body map[string]any) int {
		raw, _ := json.Marshal(body) // a map of strings and numbers
		code, _, err := f.cluster.Servers[0].Do(ctx, method, path, raw)
		if err == nil && code/100 == 2 {
			written.Add(1)
		}
		return code
	}
	for writer := range 2 {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				name, spec := fmt.Sprintf("gear-%d-%d", writer, n%40), map[string]any{"teeth": n}
				if send(http.MethodPatch, gearsPath+"/"+name, map[string]any{"spec": spec}) == http.StatusNotFound {
					send(http.MethodPost, gearsPath,
						map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
				}
				select {
				case <-ctx.Done():
				case <-time.After(40 * time.Millisecond):
				}
			}
		})
	}
	end := sync.OnceFunc(func() { cancel(); work.Wait() })
	f.Cleanup(end)
	return func() int64 { end(); return written.Load() }
}

// curl sends a request to a replica's own address, whose certificate nothing depends on here, and returns the status; 0
// if it does not answer.
func (r *replica) curl(method, path string, body map[string]any) int {
	raw, _ := json.Marshal(body) // a map of strings and numbers
	request, err := http.NewRequestWithContext(r.fleet.Context(), method, "https://"+r.address()+path,
		bytes.NewReader(raw))
	if err != nil {
		r.fleet.Error(err)
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: r.fleet.cluster.DialContext, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	answer, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// migration is the StorageVersionMigration; its zero value where there is none.
func (f *fleet) migration() (m v1alpha1.StorageVersionMigration) {
	f.Helper()
	code, raw, err := f.cluster.Servers[0].Do(f.Context(), http.MethodGet,
		"/apis/migration.k8s.io/v1alpha1/storageversionmigrations/"+gearsName, nil)
	if err == nil && code == http.StatusOK {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil || code != http.StatusOK && code != http.StatusNotFound {
		f.Fatalf("%d %v: %s", code, err, raw)
	}
	return m
}

// command runs kube-migrator as an administrator.
func (f *fleet) command(arguments ...string) (code int, stdout, stderr string) {
	f.Helper()
	c := f.cluster.Command(f.Context(), binary, arguments...)
	c.Env = append(os.Environ(), "KUBECONFIG="+f.kubeconfig, "XDG_STATE_HOME="+f.TempDir())
	var out, problem strings.Builder
	c.Stdout, c.Stderr = &out, &problem
	if err := c.Run(); err != nil && c.ProcessState == nil {
		f.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), problem.String()
}

// underWay waits until a run is under way, and returns the migration.
func (f *fleet) underWay() (m v1alpha1.StorageVersionMigration) {
	f.Helper()
	f.eventually("a run is under way", func() bool {
		m = f.migration()
		return m.Status.State == v1alpha1.PhaseRunning || m.Status.State == v1alpha1.PhaseWaiting
	})
	return m
}

const internalVersions = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"

// manage starts a kube-controller-manager that collects the garbage of the StorageVersion API of Kubernetes.
func (f *fleet) manage() {
	f.Helper()
	path, err := testbed.Binary(f.Context(), testbed.Newest, "kube-controller-manager", os.Stderr)
	if err != nil {
		f.Fatal(err)
	}
	p, err := f.cluster.Launch(testbed.ProgramOptions{Name: "kube-controller-manager", Path: path, Args: []string{
		"--kubeconfig=" + f.kubeconfig, "--controllers=storageversion-garbage-collector-controller", "--secure-port=0",
		"--feature-gates=StorageVersionAPI=true", "--leader-elect=false",
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.whole.Cleanup(p.Kill)
}

// entriesOf are the IDs of the servers that publish a built-in resource.
func (f *fleet) entriesOf(name string) (ids []string) {
	f.Helper()
	code, raw, err := f.cluster.Servers[0].Do(f.Context(), http.MethodGet, internalVersions+"/"+name, nil)
	var o struct {
		Status struct {
			StorageVersions []struct{ APIServerID string }
		}
	}
	if err == nil && code == http.StatusOK {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		f.Fatalf("%d %v: %s", code, err, raw)
	}
	for _, e := range o.Status.StorageVersions {
		ids = append(ids, e.APIServerID)
	}
	return ids
}
