// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Names of folders: those that a cluster uses, and those that were kept for a look at a failed test.
const (
	folderPrefix = "kube-migrator-testbed-"
	keptPrefix   = "kube-migrator-kept-"
)

// ownerFile is locked as long as the process that owns a folder lives.
const ownerFile = "owner"

// folder is a cluster's folder. A process that is killed cannot remove its own; the next process that creates one does.
type folder struct {
	path  string
	owner *os.File
}

func newFolder() (*folder, error) {
	removeOrphans(os.TempDir())
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	// The file gets its name when it is locked, so that no one sees it unlocked while its owner lives.
	unnamed := filepath.Join(path, ownerFile+".new")
	if f.owner, err = os.Create(unnamed); err == nil {
		if err = syscall.Flock(int(f.owner.Fd()), syscall.LOCK_EX); err == nil {
			err = os.Rename(unnamed, filepath.Join(path, ownerFile))
		}
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// keep moves the folder out of reach of removeOrphans and returns its new path.
func (f *folder) keep() (string, error) {
	kept := filepath.Join(filepath.Dir(f.path), strings.Replace(filepath.Base(f.path), folderPrefix, keptPrefix, 1))
	if err := os.Rename(f.path, kept); err != nil {
		return "", err
	}
	_ = f.owner.Close()
	return kept, nil
}

func (f *folder) remove() {
	if f != nil {
		_ = os.RemoveAll(f.path)
		_ = f.owner.Close()
	}
}

// removeOrphans removes the folders whose owners are dead. It ignores errors, because a folder that remains only takes
// space.
func removeOrphans(dir string) {
	owners, err := filepath.Glob(filepath.Join(dir, folderPrefix+"*", ownerFile))
	if err != nil {
		return
	}
	for _, path := range owners {
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = file.Close()
	}
}

func cacheFolder() (string, error) {
	if dir := os.Getenv(cacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find cache folder (or set %s): %w", cacheEnv, err)
	}
	return filepath.Join(dir, "kube-migrator", "testbed"), nil
}

// repositoryRoot finds the folder of the repository's go.mod above the working directory.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.Contains(append([]byte("\n"), raw...), []byte("\nmodule "+modulePath+"\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the go.mod of %s: none in %s or above", modulePath, start)
		}
	}
}

// lock takes an exclusive lock that ends with the process at the latest; busy is called once if it has to wait.
func lock(ctx context.Context, path string, busy func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = file.Close()
			return nil, err
		}
		if !waited {
			busy()
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			_ = file.Close()
			return nil, err
		}
	}
}

// pause waits, or returns the context's error as soon as it ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
