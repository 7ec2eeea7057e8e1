// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// containerdSocket is where containerd listens; seen from the node's machine, whose /run is its own.
const containerdSocket = "/run/containerd/containerd.sock"

// pauseImage is the image of the container that holds a pod's network.
const pauseImage = "kube-migrator/testbed-pause:1"

// containerdConfig: its data is in the cluster's folder, everything else in /run. restrict_oom_score_adj does without
// CAP_SYS_RESOURCE, which virtual machines of continuous integration may lack.
const containerdConfig = `version = 2
root = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
`

// cniConfig gives every pod an address and a route to the machine.
const cniConfig = `{
  "cniVersion": "0.4.0",
  "name": "testbed",
  "plugins": [{
    "type": "ptp",
    "ipam": {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// startContainerd starts containerd and gives it the pause image.
func (n *Node) startContainerd(ctx context.Context) error {
	network := filepath.Join(n.dir, "cni")
	if err := os.Mkdir(network, 0o755); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "containerd.toml")
	for path, content := range map[string]string{
		filepath.Join(network, "testbed.conflist"): fmt.Sprintf(cniConfig, podRange),
		config: fmt.Sprintf(containerdConfig, filepath.Join(n.dir, "containerd"), "docker.io/"+
			pauseImage, cniFolder(), network),
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return err
	}
	process, err := n.launch(n.ns, "containerd", containerd, "--config", config)
	if err != nil {
		return err
	}
	image := filepath.Join(n.dir, "pause.tar")
	if err := packImage(ctx, pauseImage, n.built("testbed-pause"), image); err != nil {
		return err
	}
	err = process.await(ctx, n.cluster.options.ReadyTimeout, func(ctx context.Context) error {
		if out, err := n.ns.command(ctx, "ctr", "version").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.ImportImage(ctx, image)
}

// packImage makes an image of a static binary for this machine, with the program that makes those of kube-migrator.
func packImage(ctx context.Context, name, binary, output string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "tools"), "run", "./image", "--name", name,
		"--output", output, "linux/"+runtime.GOARCH+"="+binary)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pack image %s: %w\n%s", name, err, lastLines(out, logTailLines))
	}
	return nil
}
