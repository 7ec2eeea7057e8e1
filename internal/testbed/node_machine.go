// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// What a node needs of Debian, and in which folders distributions put the plugins of its network.
var (
	nodeTools = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "nft", "conntrack",
		"nsenter", "unshare", "mount"}
	cniFolders   = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	cniPlugins   = []string{"ptp", "host-local", "loopback"}
	nodePackages = "apt-get install -y --no-install-recommends containerd runc containernetworking-plugins nftables " +
		"conntrack"
)

// checkNodeTools returns what is missing, and how to get it.
func checkNodeTools() error {
	missing := slices.DeleteFunc(slices.Clone(nodeTools), func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if cniFolder() == "" {
		missing = append(missing, "the CNI plugins "+strings.Join(cniPlugins, ", "))
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: not found\nTry: %s", strings.Join(missing, ", "), nodePackages)
	}
	return nil
}

// cniFolder returns the folder that contains all plugins, or "" if there is none.
func cniFolder() string {
	for _, folder := range cniFolders {
		if !slices.ContainsFunc(cniPlugins, func(name string) bool {
			_, err := os.Stat(filepath.Join(folder, name))
			return err != nil
		}) {
			return folder
		}
	}
	return ""
}

// machineScript sets up what the node sees, then leaves its place to the first process of the PID namespace.
//
// /run is empty, and what is written below /var/lib and /var/log stays in it, so that nothing of containerd, kubelet
// and the network's plugins reaches the host, and nothing of the host's is in their way. A kubelet sets six parameters
// of the kernel for the whole machine; here it finds them set, in files that cover the real ones. The root of every
// hierarchy of cgroups is a cgroup of the node's, which a cgroup namespace makes true for runc too: a kubelet that
// leaves resources alone (kubeletConfig) cannot be told where to put pods.
const machineScript = `
mount --make-rprivate /
mount -t proc none /proc
mount -t tmpfs -o mode=755 tmpfs /run
for name in lib log; do
	mkdir -p /run/overlay/$name /run/overlay/$name.work
	mount -t overlay -o lowerdir=/var/$name,upperdir=/run/overlay/$name,workdir=/run/overlay/$name.work overlay /var/$name
done
mkdir /run/kernel
while read -r name value; do
	[ -e "/proc/sys/$name" ] || continue
	file=/run/kernel/$(echo "$name" | tr / .)
	echo "$value" >"$file"
	mount --bind "$file" "/proc/sys/$name"
done <<-END
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
END
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
		echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || true
	done
	mkdir "/sys/fs/cgroup/$4"
	echo $$ >"/sys/fs/cgroup/$4/cgroup.procs"
	mount --bind "/sys/fs/cgroup/$4" /sys/fs/cgroup
else
	for hierarchy in /sys/fs/cgroup/*/; do
		mkdir "$hierarchy$4"
		for file in cpuset.cpus cpuset.mems; do
			[ ! -e "$hierarchy$file" ] || cat "$hierarchy$file" >"$hierarchy$4/$file"
		done
		echo $$ >"$hierarchy$4/cgroup.procs"
		mount --bind "$hierarchy$4" "$hierarchy"
	done
fi
echo 1 >/proc/sys/net/ipv4/ip_forward
ip address add "$2/32" dev lo
ip route add "$3" dev lo src "$2"
exec unshare --cgroup -- sh -euc '
	if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
		mkdir /sys/fs/cgroup/first # in version 2, a cgroup that gives controllers to others holds no process
		echo $$ >/sys/fs/cgroup/first/cgroup.procs
	fi
	echo ready
	exec "$1"
' machine "$1"
`

// startMachine makes the namespaces that the node lives in.
func (n *Node) startMachine(ctx context.Context) error {
	for _, name := range []string{"testbed-pause", "testbed-machine"} {
		if err := n.build(ctx, name); err != nil {
			return err
		}
	}
	log := n.Log("machine")
	// It has to outlive this process for the moment that it takes to remove the cgroups, so it is asked to end, not
	// killed.
	machine, err := launchUntil(syscall.SIGTERM, nil, n.cluster.ns, "", "machine", log,
		n.built("testbed-machine"), n.cgroup(),
		"sh", "-euc", machineScript, "machine", n.built("testbed-pause"), nodeIP, serviceRange, n.cgroup())
	if err != nil {
		return err
	}
	n.machine = machine
	var pid int
	err = machine.await(ctx, n.cluster.options.ReadyTimeout, func(context.Context) error {
		raw, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		first, rest, _ := strings.Cut(string(raw), "\n")
		if !strings.Contains(rest, "ready\n") {
			return errors.New("its mounts are not there yet")
		}
		pid, err = strconv.Atoi(first)
		return err
	})
	if err != nil {
		return err
	}
	n.ns, err = n.cluster.ns.within(pid)
	return err
}

// cgroup returns the name of the cgroup that everything on the node is in, in every hierarchy.
func (n *Node) cgroup() string { return filepath.Base(n.cluster.dir) }

// built returns the path of a program of the testbed's own.
func (n *Node) built(name string) string { return filepath.Join(n.dir, name) }

// build builds a program of the testbed's own, static, because it may run where there are no libraries.
func (n *Node) build(ctx context.Context, name string) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", n.built(name),
		"./internal/testbed/cmd/"+name)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", name, err, lastLines(out, logTailLines))
	}
	return nil
}
