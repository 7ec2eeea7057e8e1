// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"os"
	"strings"
	"testing"
)

// A file that is not a checkpoint is named in the error, and one that is can be saved and loaded again.
func FuzzCheckpointFile(f *testing.F) {
	f.Add([]byte(`{"version":2,"resource":"widgets.demo.example.com","epoch":{"hash":"h"},"failures":[{"name":"a"}]}`))
	f.Add([]byte(`{"version":1e99}`))
	f.Add([]byte(`null`))
	file, err := New(f.TempDir(), "cluster", "widgets.demo.example.com")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(file.path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := file.Checkpoint()
		if err != nil {
			if !strings.Contains(err.Error(), file.path+" is not a checkpoint") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		if err := file.Save(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Load(t.Context()); err != nil {
			t.Errorf("what was saved cannot be loaded: %v", err)
		}
	})
}
