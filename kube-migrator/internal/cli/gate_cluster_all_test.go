// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/gate"
)

// gateUser may read one Secret of the management cluster, and nothing else.
const gateUser = "gate"

// TestTheGateOfARealCluster asks the gate about a cluster that is safe, unsafe, undetermined, unresponsive and unknown.
func TestTheGateOfARealCluster(t *testing.T) {
	management := &checked{Cluster: testbed.New(t, testbed.Options{Users: []testbed.User{{Name: gateUser}}})}
	workload := &checked{Cluster: testbed.New(t, testbed.Options{})}
	for _, err := range []error{
		workload.InstallWidgets(t.Context(), testbed.Widgets{}),
		workload.BulkCreate(t.Context(), testbed.Bulk{Count: 3}),
		workload.InstallCRDs(t.Context(), config.CRDs),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	management.allowGate(t, workload)
	ask := management.serveGate(t)
	const held = `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"BeforeClusterUpgradeResponse",` +
		`"status":"Success","message":"%s","retryAfterSeconds":90}` + "\n"
	const command = ". In the cluster, this command says why: kube-migrator check --target-version 1.37"
	const undetermined = "kube-migrator cannot determine whether the upgrade is safe: "
	want := func(situation, name, release, want string) {
		t.Helper()
		if got := ask(name, release); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", situation, got, want)
		}
	}
	got := ask("production", "v1.37.0")
	if !regexp.MustCompile(`^{.*"Kubernetes 1\.37 may be unable to decode what is stored in the cluster; that cannot be ` +
		`determined now: [a-z.0-9]+(, [a-z.0-9]+)+ and \d+ more\. .*"retryAfterSeconds":90}\n$`).MatchString(got) {
		t.Errorf("without StorageStates: %s", got)
	}
	workload.everything(t)
	workload.widgets(t, nil, "v1")
	want("safe", "production", "v1.37.0", `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",`+
		`"kind":"BeforeClusterUpgradeResponse","status":"Success","retryAfterSeconds":0}`+"\n")
	workload.widgets(t, nil, "v0", "v1")
	want("unsafe", "production", "v1.37.0", fmt.Sprintf(held,
		"Kubernetes 1.37 cannot decode everything that is stored in the cluster: "+testbed.WidgetCRD+command))
	workload.widgets(t, nil, "Unknown", "v1")
	want("undetermined", "production", "v1.37.0", fmt.Sprintf(held, "Kubernetes 1.37 may be unable to decode what is "+
		"stored in the cluster; that cannot be determined now: "+testbed.WidgetCRD+command))
	workload.widgets(t, nil, "v1")
	want("a release that this build does not know", "production", "v1.99.0", fmt.Sprintf(held,
		"the versions that Kubernetes 1.99 can decode are unknown: known releases are 1.30 to 1.37"))
	want("a word that is no release", "production", "newest", fmt.Sprintf(held,
		`\"newest\" is not a release of Kubernetes, want one like 1.36`))
	want("a Cluster whose Secret the gate may not read", "other", "v1.37.0", fmt.Sprintf(held, undetermined+
		"the gate may not read the Secret with the kubeconfig of the Cluster"))
	if err := workload.Servers[0].Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = workload.Servers[0].Signal(syscall.SIGCONT) })
	got = ask("production", "v1.37.0")
	if err := workload.Servers[0].Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// A handshake or the time of the request may end first.
	if asked, late := fmt.Sprintf(held, undetermined+"the cluster could not be asked"), fmt.Sprintf(held, undetermined+
		"the cluster did not answer in time"); got != asked && got != late {
		t.Errorf("unresponsive: %s", got)
	}
}

// allowGate writes the kubeconfig of a cluster as Cluster API does, and lets the gate read it.
func (c *checked) allowGate(t *testing.T, workload *checked) {
	t.Helper()
	path, err := workload.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.do(t, http.MethodPost, "/api/v1/namespaces/default/secrets", fmt.Sprintf(`{"metadata":{"name":"production-kubeconfig"},
		"type":"cluster.x-k8s.io/secret","data":{"value":%q}}`, base64.StdEncoding.EncodeToString(kubeconfig)))
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/"
	c.do(t, http.MethodPost, rbac+"roles", `{"metadata":{"name":"gate"},"rules":[{"apiGroups":[""],"resources":["secrets"],
		"resourceNames":["production-kubeconfig"],"verbs":["get"]}]}`)
	c.do(t, http.MethodPost, rbac+"rolebindings", `{"metadata":{"name":"gate"},"subjects":[{"kind":"User","name":"gate",
		"apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"gate"}}`)
}

// serveGate runs the command until the test ends, and returns what asks it about a Cluster.
func (c *checked) serveGate(t *testing.T) func(name, release string) string {
	t.Helper()
	kubeconfig, err := c.KubeconfigFor(c.Servers[0].URL(), gateUser)
	if err != nil {
		t.Fatal(err)
	}
	dir := gateCertificate(t)
	certificate, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		defer func() { _ = write.Close() }()
		if code := Run(ctx, []string{"kube-migrator", "gate", "--kubeconfig", kubeconfig, "--bind-address=127.0.0.1:0",
			"--cert-dir=" + dir, "--retry-after=90s"}, Streams{In: strings.NewReader(""), Out: io.Discard,
			Err: write}); code != exit.Done {
			t.Errorf("the gate ended with exit code %d", code)
		}
	})
	addresses := make(chan string, 1)
	running.Go(func() { logOfGate(t, read, addresses) })
	t.Cleanup(func() { stop(); running.Wait() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "gate.example.com"}}}
	address := <-addresses
	return func(name, release string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+address+gate.HookPath,
			strings.NewReader(fmt.Sprintf(`{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1",
			"kind":"BeforeClusterUpgradeRequest","cluster":{"metadata":{"namespace":"default","name":%q}},
			"fromKubernetesVersion":"v1.36.0","toKubernetesVersion":%q}`, name, release)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
}

// logOfGate reads the log to its end, and hands over the address in its first line.
func logOfGate(t *testing.T, from io.Reader, address chan<- string) {
	t.Helper()
	lines := bufio.NewScanner(from)
	for first := true; lines.Scan(); first = false {
		if _, found, ok := strings.Cut(lines.Text(), "address="); first && ok {
			address <- found
		}
		t.Log(lines.Text())
	}
	close(address)
}
