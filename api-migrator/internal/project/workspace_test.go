// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
)

func TestTheModulesOfARepositoryThatLeadToOneAnotherAreOneProject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files       map[string]string
		start, root string // relative to the repository
		want        []Module
	}{
		"an API that the root replaces, seen from the root": {
			files: map[string]string{"go.mod": "module example.com/x\nreplace example.com/x/api => ./api\n",
				"api/go.mod": "module example.com/x/api\n"},
			start: ".", root: ".",
			want: []Module{{Path: "example.com/x", Dir: "."}, {Path: "example.com/x/api", Dir: "api"}},
		},
		"the same, seen from the API": {
			files: map[string]string{"go.mod": "module example.com/x\nreplace example.com/x/api => ./api\n",
				"api/go.mod": "module example.com/x/api\n", "api/v1/doc.go": ""},
			start: "api/v1", root: ".",
			want: []Module{{Path: "example.com/x", Dir: "."}, {Path: "example.com/x/api", Dir: "api"}},
		},
		"modules next to each other, and one that uses both": {
			files: map[string]string{
				"api/go.mod":  "module example.com/api\n",
				"ctrl/go.mod": "module example.com/ctrl\nreplace example.com/api => ../api\n",
				"e2e/go.mod":  "module example.com/e2e\nreplace example.com/ctrl => ../ctrl/\n",
			},
			start: "api", root: ".",
			want: []Module{{Path: "example.com/api", Dir: "api"}, {Path: "example.com/ctrl", Dir: "ctrl"},
				{Path: "example.com/e2e", Dir: "e2e"}},
		},
		"tools and tests that do not know of the API are left out": {
			files: map[string]string{"go.mod": "module example.com/x\n", "tools/go.mod": "module example.com/tools\n",
				"testdata/a/go.mod": "module a\nreplace example.com/x => ../..\n"},
			start: ".", root: ".",
			want: []Module{{Path: "example.com/x", Dir: "."}},
		},
		"a project within another's testdata": {
			files: map[string]string{"go.mod": "module example.com/x\n",
				"testdata/a/go.mod": "module a\nreplace b => ./b\n", "testdata/a/b/go.mod": "module b\n"},
			start: "testdata/a/b", root: "testdata/a",
			want: []Module{{Path: "a", Dir: "."}, {Path: "b", Dir: "b"}},
		},
		"modules that go.work uses": {
			files: map[string]string{"go.work": "go 1.26\nuse ./a\nuse ./b\n", "a/go.mod": "module a\n",
				"b/go.mod": "module b\n", "c/go.mod": "module c\n"},
			start: "a", root: ".",
			want: []Module{{Path: "a", Dir: "a"}, {Path: "b", Dir: "b"}},
		},
		"a copy of the API in vendor is not the API": {
			files: map[string]string{
				"go.mod":             "module example.com/x\nreplace example.com/x/api => ./api\n",
				"api/go.mod":         "module example.com/x/api\n",
				"vendor/modules.txt": "# example.com/x/api v0.0.0 => ./api\n## explicit\n",
			},
			start: "api", root: ".",
			want: []Module{{Path: "example.com/x", Dir: ".", Vendors: true}, {Path: "example.com/x/api", Dir: "api"}},
		},
		"a module that lists itself as vendored": {
			files: map[string]string{"go.mod": "module example.com/x\n",
				"vendor/modules.txt": "# example.com/x v0.0.0\n"},
			start: ".", root: ".",
			want: []Module{{Path: "example.com/x", Dir: "."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := write(t, test.files)
			if err := os.Mkdir(filepath.Join(top, ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
			w, err := Find(filepath.Join(top, test.start))
			if err != nil {
				t.Fatal(err)
			}
			if want := filepath.Join(top, test.root); w.Root != want {
				t.Errorf("root %s, want %s", w.Root, want)
			}
			if diff := cmp.Diff(test.want, w.Modules); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAModuleWhoseFileIsALinkIsRefused(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"alone":        {"real.mod": "module a\n"},
		"with go.work": {"real.mod": "module a\n", "go.work": "go 1.26\nuse ./a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := write(t, files)
			if err := errors.Join(os.Mkdir(filepath.Join(top, ".git"), 0o755), os.Mkdir(filepath.Join(top, "a"), 0o755),
				os.Symlink("../real.mod", filepath.Join(top, "a", "go.mod"))); err != nil {
				t.Fatal(err)
			}
			w, err := Find(filepath.Join(top, "a"))
			if problem := (*hint.Error)(nil); !errors.As(err, &problem) ||
				!strings.Contains(err.Error(), "a/go.mod is no file") {
				t.Errorf("got %v, %v; want an error for the user", w, err)
			}
		})
	}
}

// write makes files below a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	top := fixture.Folder(t)
	fixture.Write(t, top, files)
	return top
}

func TestEachModuleGivesItsFoldersTheirImportPaths(t *testing.T) {
	t.Parallel()
	w := &Workspace{Modules: []Module{{Path: "example.com/x", Dir: "."}, {Path: "example.com/x-api/v2", Dir: "api"}}}
	for dir, want := range map[string]string{
		".": "example.com/x", "api": "example.com/x-api/v2", "api/v1": "example.com/x-api/v2/v1",
		"apis/v1": "example.com/x/apis/v1",
	} {
		if got := w.ImportPath(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

func TestACopyFindsWhatLiesOutsideTheOriginal(t *testing.T) {
	t.Parallel()
	top := write(t, map[string]string{
		"x/go.mod": "module example.com/x\n\nreplace example.com/x/api => ./api\n\nreplace example.com/lib " +
			"v1.0.0 => ../lib\n",
		"x/api/go.mod": "module example.com/x/api\n",
		"lib/go.mod":   "module example.com/lib\n",
	})
	original := &Workspace{Root: filepath.Join(top, "x"),
		Modules: []Module{{Path: "example.com/x", Dir: "."}, {Path: "example.com/x/api", Dir: "api"}}}
	folder := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(folder, os.DirFS(original.Root)); err != nil {
		t.Fatal(err)
	}
	if err := original.In(folder).Adopt(original); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "example.com/lib v1.0.0 => "+top+"/lib\n") ||
		!strings.Contains(string(got), "=> ./api\n") {
		t.Errorf("go.mod of the copy:\n%s", got)
	}
}

func TestFilesMayImportWhatIsNotVendoredYet(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := write(t, fixture.Archive(t, "testdata/not-vendored-yet.txtar"))
	if err := os.Mkdir(filepath.Join(dir, "x", ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := Load(t.Context(), filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Workspace.Vendored(p.Workspace.Modules[0]) {
		t.Error("the module is not known to be vendored")
	}
	files := map[string][]byte{"y.go": []byte("package x\n\nimport \"example.com/dep/b\"\n\nconst Y = b.B\n")}
	if p, err = LoadWith(t.Context(), p.Workspace, files); err != nil ||
		p.Packages[0].Types.Scope().Lookup("Y") == nil {
		t.Errorf("got %v", err)
	}
}
