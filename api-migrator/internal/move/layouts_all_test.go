// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// Each module is checked with its own Go version and its own versions of what it imports: neither could be built with
// those of the other one.
func TestModulesWithOtherVersionsOfWhatTheyImportAreEachCheckedWithTheirOwn(t *testing.T) {
	t.Parallel()
	dir, libraries := nested(t), fixture.Folder(t)
	fixture.Write(t, libraries, map[string]string{
		"older/go.mod": "module example.com/library\n\ngo 1.24.0\n",
		"older/all.go": "package library\n\nfunc Both() int { return 1 }\n\nfunc Older() int { return 1 }\n",
		"newer/go.mod": "module example.com/library\n\ngo 1.26.0\n",
		"newer/all.go": "package library\n\nfunc Both() int { return 2 }\n\nfunc Newer() int { return 2 }\n",
	})
	for folder, version := range map[string]string{"api/": "older", "": "newer"} {
		fixture.Append(t, dir, folder+"go.mod", "\nrequire example.com/library v0.0.0-00010101000000-000000000000\n\n"+
			"replace example.com/library => "+filepath.ToSlash(filepath.Join(libraries, version))+"\n")
	}
	const needs = "import \"example.com/library\"\n\n"
	fixture.Write(t, dir, map[string]string{
		"api/v1/memcached_size.go": "package v1\n\n" + needs + "// Sizes counts.\nfunc (m *Memcached) Sizes() int { return " +
			"library.Both() }\n",
		"api/v1/memcached_test.go":    "package v1\n\n" + needs + "var _ = library.Older\n",
		"internal/controller/size.go": "package controller\n\n" + needs + "var _ = library.Newer\n",
	})
	fixture.Commit(t, dir, "with a library in two versions")
	migrated(t, dir, memcachedRequest)
	fixture.Run(t, filepath.Join(dir, "api"), "go", "vet", "./...")
	fixture.Run(t, dir, "go", "vet", "./...")
	if moved := fixture.Read(t, dir, "api/v1beta2/memcached_size.go"); !strings.Contains(moved, "library.Both()") {
		t.Errorf("the new version has:\n%s", moved)
	}
}
