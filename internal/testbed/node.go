// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Addresses in an isolated cluster, besides those of its API servers.
const (
	serviceRange = "10.0.0.0/24"
	apiServiceIP = "10.0.0.1" // of the Service default/kubernetes
	podRange     = "10.244.0.0/24"
	nodeIP       = "192.0.2.200"
)

// NodeName is the name of a cluster's node.
const NodeName = "node-0"

// nodeBinaries are the binaries of Kubernetes that a node runs.
var nodeBinaries = []string{"kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler"}

// Node is a whole node: kubelet, containerd and kube-proxy in a PID and a mount namespace of their own, and
// kube-controller-manager and kube-scheduler next to them. Pods have addresses, reach Services and hold ServiceAccount
// tokens; there is no DNS and no registry: their images are imported (ImportImage), and their names are never "latest".
type Node struct {
	cluster   *Cluster
	dir       string
	binaries  map[string]string
	machine   *process
	ns        *namespace
	processes []*process
	stop      sync.Once
}

// NewNode starts a node of a cluster that was made with Options.Node and waits until it is Ready. It ends with the
// test, before the cluster. A node that does not start fails the test at once.
func NewNode(t testing.TB, c *Cluster) *Node {
	t.Helper()
	n, err := StartNode(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop)
	return n
}

// StartNode starts the node of a cluster. The context bounds the start alone; the node runs until Stop, or until the
// cluster stops.
func StartNode(ctx context.Context, c *Cluster) (*Node, error) {
	if !c.options.Node {
		return nil, errors.New("start node: the cluster was made without Options.Node")
	}
	if err := checkNodeTools(); err != nil {
		return nil, fmt.Errorf("start node: %w", err)
	}
	n := &Node{cluster: c, dir: filepath.Join(c.dir, "node"), binaries: map[string]string{}}
	c.atStop(n.Stop)
	if err := n.start(ctx); err != nil {
		n.Stop()
		return nil, fmt.Errorf("start node: %w", err)
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if err := os.Mkdir(n.dir, 0o755); err != nil {
		return err
	}
	for _, name := range nodeBinaries {
		path, err := Binary(ctx, n.cluster.options.Release, name, n.cluster.options.Progress)
		if err != nil {
			return err
		}
		n.binaries[name] = path
	}
	if err := n.startMachine(ctx); err != nil {
		return err
	}
	if err := n.startControllers(); err != nil {
		return err
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	if err := n.startKubelet(); err != nil {
		return err
	}
	return n.awaitReady(ctx)
}

// Stop ends the node with everything on it. It may be called more than once.
func (n *Node) Stop() {
	n.stop.Do(func() {
		if n.machine.running() {
			// The kernel ends everything on the machine with its first process, so nothing needs to be asked first.
			ctx, cancel := context.WithTimeout(n.cluster.lifetime, 30*time.Second)
			defer cancel()
			if err := n.machine.terminate(ctx); err != nil {
				fmt.Fprintln(n.cluster.options.Progress, err)
			}
		}
		for _, p := range n.processes {
			p.kill()
		}
		n.ns.closeMachine()
	})
}

// Log returns the path of the log of kubelet, containerd, kube-proxy, kube-controller-manager, kube-scheduler or
// machine.
func (n *Node) Log(component string) string { return filepath.Join(n.cluster.dir, component+".log") }

// Logs returns the last lines of every log and of every container, for the output of a test that failed.
func (n *Node) Logs() string {
	var out bytes.Buffer
	paths := []string{n.Log("machine")}
	for _, p := range n.processes {
		paths = append(paths, p.log)
	}
	containers, err := filepath.Glob(filepath.Join(n.dir, "pods", "*", "*", "*.log"))
	if err != nil {
		return err.Error()
	}
	for _, path := range append(paths, containers...) {
		raw, err := os.ReadFile(path)
		if err != nil {
			raw = []byte(err.Error())
		}
		fmt.Fprintf(&out, "==> %s\n%s\n", strings.TrimPrefix(path, n.cluster.dir+"/"), lastLines(raw, logTailLines))
	}
	return out.String()
}

// ImportImage gives the node the image of an OCI tar, such as `make image` writes. Pods name it as it was named when it
// was packed.
func (n *Node) ImportImage(ctx context.Context, path string) error {
	out, err := n.ns.command(ctx, "ctr", "--namespace", "k8s.io", "images", "import", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("import image %s: %w\n%s", path, err, lastLines(out, logTailLines))
	}
	return nil
}

// launch starts a process of the node: on its machine, or in the cluster's network alone.
func (n *Node) launch(ns *namespace, name, path string, args ...string) (*process, error) {
	p, err := launch(ns, NodeName, name, n.Log(name), path, args...)
	if err != nil {
		return nil, err
	}
	n.processes = append(n.processes, p)
	return p, nil
}

// startControllers starts the controllers that create the pods of Jobs, and the scheduler. They are ready when the node
// is.
func (n *Node) startControllers() error {
	kubeconfig, err := n.cluster.Kubeconfig()
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(n.cluster.dir, name) }
	for name, flags := range map[string][]string{
		"kube-controller-manager": {
			"--service-account-private-key-file=" + file("sa.key"), "--root-ca-file=" + file("ca.crt"),
			"--cluster-cidr=" + podRange,
		},
		"kube-scheduler": nil,
	} {
		flags = append(flags, "--kubeconfig="+kubeconfig, "--bind-address=127.0.0.1", "--leader-elect=false")
		if _, err := n.launch(n.cluster.ns, name, n.binaries[name], flags...); err != nil {
			return err
		}
	}
	return nil
}

// awaitReady waits until the API server says that the node is Ready, and that pods may be put on it.
func (n *Node) awaitReady(ctx context.Context) error {
	waits, ctx := errgroup.WithContext(ctx)
	for _, p := range n.processes {
		waits.Go(func() error { return p.await(ctx, n.cluster.options.ReadyTimeout, n.ready) })
	}
	return waits.Wait()
}

func (n *Node) ready(ctx context.Context) error {
	raw, err := n.cluster.request(ctx, http.MethodGet, "/api/v1/nodes/"+NodeName, nil)
	if err != nil {
		return err
	}
	var node struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(raw, &node); err != nil {
		return err
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("node %s has taints: %v", NodeName, node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("node %s is not Ready: %v", NodeName, node.Status.Conditions)
}

// startKubelet starts kubelet and kube-proxy, both as administrators, because the tests of nodes do not test their
// permissions.
func (n *Node) startKubelet() error {
	kubeconfig, err := n.cluster.Kubeconfig()
	if err != nil {
		return err
	}
	config := filepath.Join(n.dir, "kubelet.json")
	raw, err := json.MarshalIndent(n.kubeletConfig(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, raw, 0o644); err != nil {
		return err
	}
	root := filepath.Join(n.dir, "kubelet")
	_, err = n.launch(n.ns, "kubelet", n.binaries["kubelet"],
		"--config="+config, "--kubeconfig="+kubeconfig, "--root-dir="+root, "--cert-dir="+filepath.Join(root, "pki"),
		"--hostname-override="+NodeName, "--node-ip="+nodeIP)
	if err != nil {
		return err
	}
	_, err = n.launch(n.ns, "kube-proxy", n.binaries["kube-proxy"],
		"--kubeconfig="+kubeconfig, "--proxy-mode=nftables", "--cluster-cidr="+podRange, "--conntrack-max-per-core=0",
		"--hostname-override="+NodeName, "--oom-score-adj=0")
	return err
}

// kubeletConfig leaves the machine's own cgroups, memory and disk alone: it gives pods no cgroups besides those of
// their containers, and a full disk evicts no one.
func (n *Node) kubeletConfig() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": false},
			"x509":      map[string]any{"clientCAFile": filepath.Join(n.cluster.dir, "ca.crt")},
		},
		"authorization":            map[string]any{"mode": "AlwaysAllow"},
		"address":                  nodeIP,
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"podLogsDir":               filepath.Join(n.dir, "pods"),
		"volumePluginDir":          filepath.Join(n.dir, "plugins"),
		"resolvConf":               "/dev/null",

		"cgroupDriver":           "cgroupfs",
		"cgroupsPerQOS":          false,
		"enforceNodeAllocatable": []string{},
		"failCgroupV1":           false,
		"failSwapOn":             false,
		"oomScoreAdj":            0,

		"makeIPTablesUtilChains":      false,
		"imageGCHighThresholdPercent": 100,
		"imageGCLowThresholdPercent":  99,
		"evictionHard": map[string]string{
			"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
			"imagefs.inodesFree": "0%",
		},
	}
}
