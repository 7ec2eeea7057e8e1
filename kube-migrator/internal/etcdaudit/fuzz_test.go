// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Whatever a file holds, reading it ends with what is in it or an error that says what is wrong with it.
func FuzzSnapshot(f *testing.F) {
	for _, history := range []func(yield func(record) bool){someHistory, widgetHistory(200, 10),
		widgetHistory(2, 9000)} {
		content, err := os.ReadFile(writeSnapshot(f, history))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
		f.Add(content[:len(content)-sha256.Size]) // nothing vouches for the pages
	}
	path := filepath.Join(f.TempDir(), "snapshot")
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<20 {
			return
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		bytesSeen := 0
		_, err := Snapshot{Path: path, slots: 1 << 10}.Each(t.Context(), "", func(key, value []byte) error {
			bytesSeen += len(key) + len(value)
			return nil
		})
		known := errors.Is(err, ErrNoSnapshot) || errors.Is(err, ErrDamaged) || errors.Is(err, ErrTruncated)
		if err != nil && !known {
			t.Errorf("error = %v, which no caller knows", err)
		}
		if bytesSeen > len(content) {
			t.Errorf("%d bytes of keys and values come from %d bytes", bytesSeen, len(content))
		}
	})
}

// The versions that a user gives are read, or refused.
func FuzzCurrent(f *testing.F) {
	f.Add([]byte("widgets.demo.example.com: v2\nsecrets: v1\n"))
	f.Add([]byte(`{"widgets.demo.example.com": "demo.example.com/v2"}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if current, err := ParseCurrent(data); err == nil && current == nil {
			t.Error("neither versions nor an error")
		}
	})
}
