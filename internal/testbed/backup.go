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

// Backup copies the member's data as of one moment, as a snapshot of its disk would, and returns the copy's folder. It
// belongs to the cluster.
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
	return c.RestoreBumped(ctx, backup, 0)
}

// RestoreBumped is Restore with an etcd whose revision has caught up with a given one before any API server is started,
// as `etcdutl snapshot restore --bump-revision` does it: resourceVersions do not go backwards, only objects do.
func (c *Cluster) RestoreBumped(ctx context.Context, backup string, revision int64) error {
	for _, s := range c.Servers {
		s.Kill()
	}
	if err := c.Etcd.restore(ctx, backup); err != nil {
		return err
	}
	if err := c.Etcd.catchUp(ctx, revision); err != nil {
		return err
	}
	for _, s := range c.Servers {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// RestoreOwn puts the etcd of Options.OwnEtcd alone back to a backup, lets it catch up with a revision (0: it does
// not), and restarts the API servers one after another: nothing else in the cluster is interrupted.
func (c *Cluster) RestoreOwn(ctx context.Context, backup string, revision int64) error {
	if err := c.OwnEtcd.restore(ctx, backup); err != nil {
		return err
	}
	if err := c.OwnEtcd.catchUp(ctx, revision); err != nil {
		return err
	}
	for _, s := range c.Servers {
		if err := s.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// catchUp writes until etcd has come to a revision.
func (e *Etcd) catchUp(ctx context.Context, revision int64) error {
	for at := int64(0); at < revision; {
		answer, err := e.client.Put(ctx, "testbed/caught-up", "")
		if err != nil {
			return fmt.Errorf("let etcd catch up: %w", err)
		}
		at = answer.Header.Revision
	}
	return nil
}

func (e *Etcd) restore(ctx context.Context, backup string) error {
	if e.contents != nil && e.Running() {
		if err := e.contents.End(ctx); err != nil {
			return fmt.Errorf("restore etcd: %w", err)
		}
	}
	e.Kill()
	if err := os.RemoveAll(e.DataDir()); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.CopyFS(e.DataDir(), os.DirFS(filepath.Join(backup, "etcd"))); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := os.Chmod(e.DataDir(), 0o700); err != nil {
		return fmt.Errorf("restore etcd: %w", err)
	}
	if err := e.Start(ctx); err != nil || e.contents == nil {
		return err
	}
	held, err := e.client.Get(ctx, "none")
	if err != nil {
		return fmt.Errorf("read the revision of etcd: %w", err)
	}
	e.contents.Begin(e.cluster.lifetime, held.Header.Revision+1)
	return nil
}
