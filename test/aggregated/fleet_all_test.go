// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	group     = "parts.example.com"
	gearsName = "gears." + group
	gearsPath = "/apis/" + group + "/v1/namespaces/default/gears"
	published = "/registry/migration.k8s.io/storageversions/" + group + ".gears"
	recorded  = "/registry/migration.k8s.io/storagestates/" + gearsName
	v1, v2    = group + "/v1", group + "/v2"

	// leaseDuration is that of the replicas' identity Leases, by default.
	leaseDuration = 6 * time.Second
	// patience is how long a test waits for what has to happen. It is a guard against hanging, and no requirement.
	patience = 3 * time.Minute
)

var (
	gears = testbed.Kind{Group: group, Version: "v1", Kind: "Gear", Plural: "gears",
		Prefix: "/registry/" + group + "/gears/"}

	// binary is kube-migrator, built is the folder of the aggregated API servers, all built from this tree.
	binary, built string

	servers = []server{
		{command: "plain", silent: []string{"--serve-after=1m"}}, // on net/http
		{command: "generic"}, // on k8s.io/apiserver
	}
)

// server is one of the aggregated API servers. They serve the same resource, and store it under the same keys.
type server struct {
	command string
	// silent are the flags with which a replica publishes and does not listen. Requests reach no replica that start has
	// not enlisted, so a server without such flags may listen.
	silent []string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "kube-migrator-aggregated-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	built = dir
	build := exec.Command("go", "build", "-tags=grpcnotrace", "-o", dir, "./plain", "./generic")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the aggregated API servers: %v\n%s", err, out)
		return 1
	}
	return testbed.RunTests(m, &binary, false)
}

// fleet is a cluster with replicas of one aggregated API server.
type fleet struct {
	*testing.T       // the subtest that runs
	whole            *testing.T
	server           server // that replicas are launched of
	cluster          *testbed.Cluster
	kubeconfig       string
	certificate, key string
	launched         int
}

// run runs a subtest, which finds the replicas as the one before it left them.
func (f *fleet) run(name string, test func(*fleet)) {
	f.whole.Run(name, func(t *testing.T) {
		in := *f
		in.T = t
		defer func() { f.launched = in.launched }()
		test(&in)
	})
}

// newFleet prepares a cluster; no replica runs yet.
func newFleet(t *testing.T, s server) *fleet {
	t.Helper()
	f := &fleet{T: t, whole: t, server: s, cluster: testbed.New(t, testbed.Options{Isolated: true, Flags: []string{
		"--enable-aggregator-routing=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
		"--feature-gates=StorageVersionAPI=true",
	}})}
	var err error
	if f.kubeconfig, err = f.cluster.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	if err := f.cluster.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	certificate, ca, err := testbed.ServingCertificate("gears.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	f.certificate = f.file("gears.crt", "CERTIFICATE", certificate.Certificate[0])
	f.key = f.file("gears.key", "PRIVATE KEY", key)
	f.do(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": "kube-migrator"}})
	f.do(http.MethodPost, "/api/v1/namespaces/default/services", map[string]any{
		"metadata": map[string]any{"name": "gears"},
		"spec":     map[string]any{"ports": []any{map[string]any{"name": "https", "port": 443}}},
	})
	for i, version := range []string{"v1", "v2"} {
		f.do(http.MethodPost, "/apis/apiregistration.k8s.io/v1/apiservices", map[string]any{
			"metadata": map[string]any{"name": version + "." + group},
			"spec": map[string]any{
				"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 20 - i,
				"caBundle": ca, "service": map[string]any{"namespace": "default", "name": "gears", "port": 443},
			},
		})
	}
	return f
}

func (f *fleet) file(name, kind string, der []byte) string {
	f.Helper()
	path := filepath.Join(f.cluster.Dir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		f.Fatal(err)
	}
	return path
}

// do sends a request as an administrator, and fails the test unless it succeeds.
func (f *fleet) do(method, path string, body any) []byte {
	f.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		f.Fatal(err)
	}
	code, answer, err := f.cluster.Servers[0].Do(f.Context(), method, path, raw)
	if err != nil || code/100 != 2 {
		f.Fatalf("%s %s: %d %s (%v)", method, path, code, answer, err)
	}
	return answer
}

// eventually polls.
func (f *fleet) eventually(what string, holds func() bool) {
	f.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("not within %v: %s\n%s", patience, what, f.about())
		}
	}
}

// about is what is recorded and published, for users.
func (f *fleet) about() string {
	var all strings.Builder
	for _, key := range []string{recorded, published} {
		raw, err := f.cluster.Raw(f.Context(), key)
		fmt.Fprintf(&all, "%s: %s %v\n", key, raw, err)
	}
	return all.String()
}

// replica is a process of the aggregated API server.
type replica struct {
	*testbed.Program
	fleet   *fleet
	id      string
	port    int
	slice   string   // that lists it; empty: none does
	path    string   // of the binary
	options []string // the flags that the test gave it
}

// launch starts a replica that nothing is routed to.
func (f *fleet) launch(flags ...string) *replica {
	f.Helper()
	f.launched++
	r := &replica{fleet: f, id: fmt.Sprintf("gears-%d", f.launched), port: 9000 + f.launched,
		path: filepath.Join(built, f.server.command), options: flags}
	r.run()
	return r
}

// run starts the process.
func (r *replica) run() {
	f := r.fleet
	f.Helper()
	program, err := f.cluster.Launch(testbed.ProgramOptions{Name: r.id, Path: r.path, Args: append([]string{
		"--listen=" + r.address(), "--certificate=" + f.certificate, "--key=" + f.key, "--id=" + r.id,
		"--etcd=" + f.cluster.Etcd.Endpoint(), "--kubeconfig=" + f.kubeconfig,
	}, r.options...)})
	if err != nil {
		f.Fatal(err)
	}
	r.Program = program
	f.whole.Cleanup(program.Kill)
}

func (r *replica) address() string {
	return net.JoinHostPort(r.fleet.cluster.Servers[0].Address(), strconv.Itoa(r.port))
}

const endpointSlices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"

// start starts a replica, and routes requests to it once it is ready, as a Deployment does.
func (f *fleet) start(flags ...string) *replica {
	f.Helper()
	r := f.launch(flags...)
	f.eventually(r.id+" is ready", func() bool { return r.ready() })
	r.enlist()
	return r
}

func (r *replica) ready() bool {
	conn, err := r.fleet.cluster.DialContext(r.fleet.Context(), "tcp", r.address())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return r.curl(http.MethodGet, "/readyz", nil) == http.StatusOK
}

// replace starts two replicas one after the other, and ends an old one, if there is any, after each, as a Deployment
// does.
func (f *fleet) replace(old []*replica, flags ...string) []*replica {
	f.Helper()
	upgraded := make([]*replica, 2)
	for i := range upgraded {
		upgraded[i] = f.start(flags...)
		if i < len(old) {
			old[i].in(f).end()
		}
	}
	return upgraded
}

// enlist has requests routed to the replica.
func (r *replica) enlist() {
	r.slice = r.id
	r.fleet.do(http.MethodPost, endpointSlices, map[string]any{
		"addressType": "IPv4", "ports": []any{map[string]any{"name": "https", "port": r.port}},
		"metadata": map[string]any{"name": r.slice, "labels": map[string]any{"kubernetes.io/service-name": "gears"}},
		"endpoints": []any{map[string]any{
			"addresses": []string{r.fleet.cluster.Servers[0].Address()}, "conditions": map[string]any{"ready": true},
			"targetRef": map[string]any{"kind": "Pod", "name": r.id, "uid": r.id},
		}},
	})
}

// delist ends that.
func (r *replica) delist() {
	if r.slice != "" {
		r.fleet.do(http.MethodDelete, endpointSlices+"/"+r.slice, nil)
	}
}

// in is the replica in another subtest.
func (r *replica) in(f *fleet) *replica {
	r.fleet = f
	return r
}

// end ends the replica as the deletion of its pod does: routes and process at the same time.
func (r *replica) end() {
	r.fleet.Helper()
	r.Signal(syscall.SIGTERM)
	r.delist()
	ctx, cancel := context.WithTimeout(r.fleet.Context(), time.Minute)
	defer cancel()
	r.Terminate(ctx)
	if !r.Succeeded() {
		raw, _ := os.ReadFile(filepath.Join(r.fleet.cluster.Dir(), r.id+".log")) // as much as there is
		r.fleet.Errorf("%s ended with %s\n%s", r.id, r.Exit(), raw)
	}
}

// crash kills the replica; its endpoint goes later, as the kubelet notices.
func (r *replica) crash() {
	r.Kill()
	r.delist()
}
