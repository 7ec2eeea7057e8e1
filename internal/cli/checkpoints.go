// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

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

// checkpointFile keeps the checkpoint of one resource of one cluster in a file. It holds names of objects that
// failed, and nothing else of what is stored.
type checkpointFile struct{ path string }

// stateDir is where this user's programs keep what should survive a restart
// (https://specifications.freedesktop.org/basedir-spec/latest/).
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kube-migrator"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for checkpoints: %w", err)
	}
	return filepath.Join(home, ".local", "state", "kube-migrator"), nil
}

// checkpointFileIn returns the file without making a folder for it: for those who only look.
func checkpointFileIn(dir, cluster, resource string) *checkpointFile {
	return &checkpointFile{path: filepath.Join(dir, cluster, resource+".json")}
}

func newCheckpointFile(dir, cluster, resource string) (*checkpointFile, error) {
	f := checkpointFileIn(dir, cluster, resource)
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return nil, fmt.Errorf("create folder for checkpoints: %w", err)
	}
	return f, nil
}

// Load implements migrate.Checkpoints. A file that cannot be read as a checkpoint is an error: it may be a newer one's.
func (f *checkpointFile) Load(context.Context) (*migrate.Checkpoint, error) {
	c := new(migrate.Checkpoint)
	if found, err := f.read(c); err != nil || !found {
		return nil, err
	}
	return c, nil
}

// Save implements migrate.Checkpoints.
func (f *checkpointFile) Save(_ context.Context, c *migrate.Checkpoint) error { return f.write(c) }

// maxCheckpointBytes bounds what is read of a file. Today's checkpoints have less than a MiB; those of older releases
// held whole messages.
const maxCheckpointBytes = 256 << 20

// read decodes the file; found is false where there is none.
func (f *checkpointFile) read(into any) (found bool, err error) {
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

// write lets the new file take the old one's place in one step, so a process that dies leaves either the one or the
// other (I5).
func (f *checkpointFile) write(value any) error {
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

// lock makes sure that no other process of this machine migrates the same resource (I8). The lock ends with the
// process, however it ends.
func (f *checkpointFile) lock() (unlock func(), err error) {
	return f.lockWith(os.O_CREATE | os.O_RDWR)
}

// locked reports whether another process has the lock. It writes nothing.
func (f *checkpointFile) locked() (bool, error) {
	switch unlock, err := f.lockWith(os.O_RDONLY); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // nobody ever had it
	case errors.Is(err, errLocked):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look for other processes: %w", err)
	default:
		unlock()
		return false, nil
	}
}

func (f *checkpointFile) lockWith(flags int) (unlock func(), err error) {
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
