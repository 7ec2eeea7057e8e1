// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package checkpoint stores the checkpoints of one machine in files, one per cluster and resource. It makes sure that
// only one process of this machine works on a resource.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// File is the checkpoint of one resource of one cluster. It holds the names of objects that failed, and nothing else of
// what is stored.
type File struct{ path string }

// StateDir is the folder in which this user's programs keep what should survive a restart
// (https://specifications.freedesktop.org/basedir-spec/latest/).
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kube-migrator"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for checkpoints: %w", err)
	}
	return filepath.Join(home, ".local", "state", "kube-migrator"), nil
}

// In returns the file without creating a folder for it: a dry run only reads.
func In(dir, cluster, resource string) *File {
	return &File{path: filepath.Join(dir, cluster, resource+".json")}
}

// New returns the file, and creates a folder for it.
func New(dir, cluster, resource string) (*File, error) {
	f := In(dir, cluster, resource)
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("create folder for checkpoints: %w", err)
	}
	return f, nil
}

// Load implements migrate.Checkpoints. A file that cannot be read as a checkpoint is an error: a newer release may have
// written it.
func (f *File) Load(context.Context) ([]byte, error) {
	c, err := f.Checkpoint()
	return c.Data, err
}

// Checkpoint returns the checkpoint in the file; its Data is nil if there is none.
func (f *File) Checkpoint() (migrate.Checkpoint, error) {
	var data json.RawMessage
	if found, err := f.Read(&data); err != nil || !found {
		return migrate.Checkpoint{}, err
	}
	c, err := migrate.ReadCheckpoint(data)
	if err != nil {
		return migrate.Checkpoint{}, fmt.Errorf("%s is not a checkpoint: %w", f.path, err)
	}
	return c, nil
}

// Save implements migrate.Checkpoints.
func (f *File) Save(_ context.Context, c migrate.Checkpoint) error {
	return f.Write(json.RawMessage(c.Data))
}

// maxCheckpointBytes bounds how many bytes of a file are read. Checkpoints have less than a MiB; those of older
// releases contained complete messages.
const maxCheckpointBytes = 256 << 20

// Read decodes the file; found is false if there is none.
func (f *File) Read(into any) (found bool, err error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCheckpointBytes+1))
	if err != nil {
		return false, err
	}
	if len(raw) > maxCheckpointBytes {
		return false, fmt.Errorf("%s is not a checkpoint: it has more than %d MiB", f.path, maxCheckpointBytes>>20)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return false, fmt.Errorf("%s is not a checkpoint: %w", f.path, err)
	}
	return true, nil
}

// Write replaces the file in one step, so a process that dies leaves either the old file or the new one (I5).
func (f *File) Write(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	temporary := f.path + ".new"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, f.path)
}

// Lock makes sure that no other process of this machine works on the same resource (I8). The lock ends with the
// process, even if that is killed.
func (f *File) Lock() (unlock func(), err error) {
	return f.lockWith(os.O_CREATE | os.O_RDWR)
}

// Locked reports whether another process has the lock. It writes nothing.
func (f *File) Locked() (bool, error) {
	switch unlock, err := f.lockWith(os.O_RDONLY); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // no process has ever locked it
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look for other processes: %w", err)
	default:
		unlock()
		return false, nil
	}
}

func (f *File) lockWith(flags int) (unlock func(), err error) {
	file, err := os.OpenFile(f.path+".lock", flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(file); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}

// Path returns the path of the file.
func (f *File) Path() string { return f.path }
