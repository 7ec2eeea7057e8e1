// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace of a cluster's own, and of a node its machine's (machineNamespaces) with it. It
// exists as long as the file is open or a process lives in it. The nil namespace is the one that this process is in.
type namespace struct {
	file    *os.File
	machine []*os.File // of a node's first process, in the order of machineNamespaces; nil for those of this process
}

// machineNamespaces are the namespaces that a node has besides the network namespace.
var machineNamespaces = []struct {
	file, option string // in /proc, and of nsenter
	flag         int
}{
	{"cgroup", "--cgroup", unix.CLONE_NEWCGROUP},
	{"mnt", "--mount", unix.CLONE_NEWNS},
	{"pid", "--pid", unix.CLONE_NEWPID},
}

// within returns the namespace with those of a machine, whose first process has the ID.
func (ns *namespace) within(pid int) (*namespace, error) {
	inside := &namespace{file: ns.file}
	for _, kind := range machineNamespaces {
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind.file))
		if err != nil {
			inside.closeMachine()
			return nil, err
		}
		inside.machine = append(inside.machine, file)
	}
	return inside, nil
}

func (ns *namespace) closeMachine() {
	if ns != nil {
		for _, file := range ns.machine {
			_ = file.Close()
		}
	}
}

// hasProcesses tells whether processes of the namespace are in a PID namespace of its own.
func (ns *namespace) hasProcesses() bool { return ns != nil && ns.machine != nil }

// newNamespace makes a network namespace whose loopback device is active and has the addresses.
func newNamespace(addresses []string) (*namespace, error) {
	var ns *namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			if errors.Is(err, unix.EPERM) {
				return errors.New("forbidden: an isolated cluster needs root or a user namespace\nTry: unshare " +
					"--user --map-root-user go test ./...")
			}
			return err
		}
		if err := loopback(addresses); err != nil {
			return err
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		ns = &namespace{file: file}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	return ns, nil
}

// loopback gives the addresses to the loopback device of the thread's network namespace, each under a label of its own,
// and activates it.
func loopback(addresses []string) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }() // nothing was written to it
	set := func(device string, request uint, address net.IP) error {
		with, err := unix.NewIfreq(device)
		if err == nil {
			err = with.SetInet4Addr(address.To4())
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, request, with)
		}
		return err
	}
	for i, address := range addresses {
		label := fmt.Sprintf("lo:%d", i)
		if err := errors.Join(set(label, unix.SIOCSIFADDR, net.ParseIP(address)),
			set(label, unix.SIOCSIFNETMASK, net.IPv4bcast)); err != nil {
			return fmt.Errorf("give the loopback device %s: %w", address, err)
		}
	}
	device, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	device.SetUint16(unix.IFF_UP | unix.IFF_RUNNING | unix.IFF_LOOPBACK)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, device); err != nil {
		return fmt.Errorf("activate the loopback device: %w", err)
	}
	return nil
}

// onThread calls f on a thread that ends afterwards, so that f may change the thread's namespaces.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}

// enter moves the calling thread, which must be locked and never reused, into the namespace and, if a host name is
// given, into a UTS namespace of its own.
func (ns *namespace) enter(hostname string) error {
	if ns == nil {
		return nil
	}
	if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	if ns.hasProcesses() {
		if err := ns.enterMachine(); err != nil {
			return err
		}
	}
	if hostname == "" {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("make UTS namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	return nil
}

// enterMachine enters the machine's namespaces; of the PID namespace, the thread's children are born into it.
func (ns *namespace) enterMachine() error {
	// A thread that shares root and working directory with others may not change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the other threads: %w", err)
	}
	for i, kind := range machineNamespaces {
		if err := unix.Setns(int(ns.machine[i].Fd()), kind.flag); err != nil {
			return fmt.Errorf("enter %s namespace: %w", kind.file, err)
		}
	}
	return nil
}

// dial opens a connection from inside the namespace. A socket stays in the namespace that it was made in.
func (ns *namespace) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	dialer := new(net.Dialer)
	if ns == nil {
		return dialer.DialContext(ctx, network, address)
	}
	err = onThread(func() (err error) {
		if err = ns.enter(""); err == nil {
			conn, err = dialer.DialContext(ctx, network, address)
		}
		return err
	})
	return conn, err
}

// listen opens a listener inside the namespace.
func (ns *namespace) listen(ctx context.Context, address string) (listener net.Listener, err error) {
	err = onThread(func() (err error) {
		if err = ns.enter(""); err == nil {
			listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
		return err
	})
	return listener, err
}

// command returns a command that runs inside the namespace.
func (ns *namespace) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if ns == nil {
		return exec.CommandContext(ctx, name, args...)
	}
	file := func(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }
	enter := []string{"--net=" + file(ns.file)}
	for i, f := range ns.machine {
		enter = append(enter, machineNamespaces[i].option+"="+file(f))
	}
	return exec.CommandContext(ctx, "nsenter", append(append(enter, "--", name), args...)...)
}

func (ns *namespace) close() {
	if ns != nil {
		_ = ns.file.Close()
	}
}

// reservation holds a loopback port for a process that listens with SO_REUSEPORT, so that no one else gets the port
// before it has started or while it restarts. The holder does not listen: while the process is down, connections are
// refused.
type reservation struct {
	fd   int
	port int
}

// reserve finds a free loopback port and keeps it.
func reserve() (*reservation, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	r := &reservation{fd: fd}
	if err := r.bind(); err != nil {
		r.release()
		return nil, fmt.Errorf("reserve port: %w", err)
	}
	return r, nil
}

func (r *reservation) bind() error {
	if err := unix.SetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if err := unix.Bind(r.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(r.fd)
	if err != nil {
		return err
	}
	r.port = name.(*unix.SockaddrInet4).Port
	return nil
}

func (r *reservation) release() { _ = unix.Close(r.fd) }
