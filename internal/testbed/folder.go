// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
