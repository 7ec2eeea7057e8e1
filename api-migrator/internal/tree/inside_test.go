// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNothingIsWrittenOutsideOfTheTree(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, folder := range []string{"api/v1", ".git/hooks", "outer"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "api/v1/types.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"api/v2": "../.git/hooks", "api/v3": "v1", "api/v1/linked.go": "types.go",
		"api/v1/dangling.go": "/nowhere"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, inside := range map[string]bool{
		"api/v1/types.go": true, "api/v1/new.go": true, "new/deep/new.go": true, "go.mod": true,
		".gitignore": true, "api/.github/x": true,
		"../.profile": false, "../../.profile": false, "api/../../x": false, "/etc/passwd": false, "": false,
		".": false, "api//x": false, `..\x`: false,
		".git/hooks/pre-commit": false, ".GIT/config": false, "sub/.git/config": false, ".git": false,
		"api/v2/types.go": false, "api/v3/types.go": false, "api/v1/linked.go": false, "api/v1/dangling.go": false,
	} {
		if err := Folder(root).Inside(name); (err == nil) != inside {
			t.Errorf("%q: %v, want it inside: %v", name, err, inside)
		}
	}
}
