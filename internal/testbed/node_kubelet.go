// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// startKubelet starts kubelet and kube-proxy, both as administrators: who may do what is not what a node is here for.
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

// kubeletConfig leaves the machine's own cgroups, memory and disk alone: it gives pods no cgroups beside those of their
// containers, and a full disk evicts nobody.
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
