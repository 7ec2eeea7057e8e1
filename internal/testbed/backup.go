// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Backup copies the member's data as of one moment, as a snapshot of its disk would, and returns the copy's folder. It belongs to the cluster.
func (e *Etcd) Backup() (string, error) {
	if !e.Running() {
		return "", fmt.Errorf("back up etcd: it does not run")
	}
	dir, err := os.MkdirTemp(e.cluster.dir, "backup-")
	if err != nil {
		return "", fmt.Errorf("back up etcd: %w", err)
	}
	if err := e.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return "", fmt.Errorf("halt etcd: %w", err)
	}
	err = os.CopyFS(filepath.Join(dir, "etcd"), os.DirFS(e.DataDir()))
	if err := e.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return "", fmt.Errorf("let etcd go on: %w", err)
	}
	if err != nil {
		return "", fmt.Errorf("back up etcd: %w", err)
	}
	return dir, nil
}

// Restore ends etcd and every API server, and starts them on the data of a backup: resourceVersions go backwards.
func (c *Cluster) Restore(ctx context.Context, backup string) error {
	for _, s := range c.Servers {
		s.Kill()
	}
	c.Etcd.Kill()
	if err := os.RemoveAll(c.Etcd.DataDir()); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.CopyFS(c.Etcd.DataDir(), os.DirFS(filepath.Join(backup, "etcd"))); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.Chmod(c.Etcd.DataDir(), 0o700); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := c.Etcd.Start(ctx); err != nil {
		return err
	}
	for _, s := range c.Servers {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}
