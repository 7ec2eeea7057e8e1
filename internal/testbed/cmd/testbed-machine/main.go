// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command testbed-machine runs a command as the first process of a PID and a mount namespace, and removes the cgroups
// of everything that ran there when it ends or is told to end:
//
//	testbed-machine CGROUP COMMAND ARGUMENT…
//
// When the first process of a PID namespace ends, the kernel ends all others: containers, and the shims that outlive
// containerd. Their mounts end with the mount namespace. Cgroups would be left, also by a test that was killed; so this
// process, which the kernel tells about that (PR_SET_PDEATHSIG), removes them.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 || strings.Contains(os.Args[1], "/") {
		fmt.Fprintln(os.Stderr, "usage: testbed-machine CGROUP COMMAND ARGUMENT…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "testbed-machine:", err)
		os.Exit(1)
	}
}

func run(cgroup string, command []string) error {
	runtime.LockOSThread() // the child dies with the thread that started it
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // it ends with a signal
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	// The first line tells the testbed whose namespaces to enter.
	fmt.Println(cmd.Process.Pid)
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }() // returns when everything in the PID namespace is gone
	var err error
	select {
	case err = <-done:
		err = fmt.Errorf("run %s: ended by itself: %w", command[0], err)
	case <-signals:
		_ = cmd.Process.Kill()
		if killed := <-done; cmd.ProcessState == nil {
			err = fmt.Errorf("end %s: %w", command[0], killed)
		}
	}
	return errors.Join(err, removeCgroups(cgroup))
}

// removeCgroups removes the cgroups of one name, in every hierarchy of version 1 or in the one of version 2.
func removeCgroups(name string) error {
	var err error
	for range 50 { // a cgroup that was just left is busy for a moment
		var roots []string
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			found, err := filepath.Glob(pattern + name)
			if err != nil {
				return err
			}
			roots = append(roots, found...)
		}
		if len(roots) == 0 {
			return nil
		}
		err = nil
		for _, root := range roots {
			err = errors.Join(err, removeTree(root))
		}
		<-time.After(20 * time.Millisecond)
	}
	return err
}

// removeTree removes folders from the leaves up; the files of a cgroup go with it.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return nil // what is gone already need not be removed
	})
	for _, folder := range slices.Backward(folders) {
		err = errors.Join(err, os.Remove(folder))
	}
	return err
}
