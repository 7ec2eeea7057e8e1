// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// pack returns a compressed tar with all files of a folder below a name, and some more files next to them. It has
// neither the time nor the owner of a file, so the same files make the same bytes.
func pack(folder, below string, more ...string) ([]byte, error) {
	var out bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	add := func(name, file string) error {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		err = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(below, name), Mode: mode,
			Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR})
		if err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	}
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		return add(filepath.ToSlash(name), file)
	})
	for _, file := range more {
		if err == nil {
			err = add(filepath.Base(file), file)
		}
	}
	if err == nil {
		err = archive.Close()
	}
	if err == nil {
		err = compressed.Close()
	}
	return out.Bytes(), err
}
