// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeTar writes an image layout as one tar, in the order of names, and returns its size. The file is whole or is not
// there.
func writeTar(output string, index v1.ImageIndex) (size int64, err error) {
	folder, err := os.MkdirTemp(filepath.Dir(output), "."+filepath.Base(output)+"-")
	if err != nil {
		return 0, fmt.Errorf("make temporary folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // what is left does no harm
	content := filepath.Join(folder, "layout")
	if _, err := layout.Write(content, index); err != nil {
		return 0, fmt.Errorf("write image layout: %w", err)
	}
	file, err := os.Create(filepath.Join(folder, "tar"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := packFolder(file, content); err != nil {
		return 0, fmt.Errorf("pack image layout: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), os.Rename(file.Name(), output)
}

// packFolder writes the regular files of a folder; fs.WalkDir visits them in the order of their names.
func packFolder(file *os.File, folder string) error {
	w := tar.NewWriter(file)
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return err
		}
		return writeEntry(w, path, 0o644, content)
	})
	if err != nil {
		return err
	}
	return w.Close()
}
