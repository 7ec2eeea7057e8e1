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

// namespace is a network namespace of a cluster's own. It exists as long as the file is open or a process lives in it.
// The nil namespace is the one that this process is in.
type namespace struct {
	file *os.File
}

// newNamespace makes a network namespace whose loopback device is up and holds the addresses.
func newNamespace(ctx context.Context, addresses []string) (*namespace, error) {
	var ns *namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			if errors.Is(err, unix.EPERM) {
				return errors.New("not permitted: run as root with CAP_SYS_ADMIN, an isolated cluster cannot do without")
			}
			return err
		}
		if err := run(ctx, "ip", "link", "set", "lo", "up"); err != nil {
			return err
		}
		for _, address := range addresses {
			if err := run(ctx, "ip", "address", "add", address+"/32", "dev", "lo"); err != nil {
				return err
			}
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

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
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

// enter moves the calling thread, which must be locked and never reused, into the namespace and, if a host name is given, into a UTS
// namespace of its own.
func (ns *namespace) enter(hostname string) error {
	if ns == nil {
		return nil
	}
	if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
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
	path := fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), ns.file.Fd())
	return exec.CommandContext(ctx, "nsenter", append([]string{path, "--", name}, args...)...)
}

func (ns *namespace) close() {
	if ns != nil {
		_ = ns.file.Close()
	}
}

// reservation holds a loopback port for a process that listens with SO_REUSEPORT, so that nobody else gets the port before it has
// started or while it restarts. The holder does not listen: while the process is down, connections are refused.
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
