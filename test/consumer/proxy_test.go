// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build readme

package consumer

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root = "../.."
	ours = "github.com/kube-migrator/kube-migrator"
	// version is what the modules are published as; no release has it.
	version = "v0.0.1-test.1"
)

// file is one of a module's files, with the content that it is published with.
type file struct {
	name, path string // in the module, on disk
	content    []byte // nil: as on disk
}

func (f file) Path() string { return f.name }

func (f file) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(f.path)
	if err != nil || f.content == nil {
		return info, err
	}
	return sized{info, int64(len(f.content))}, nil
}

// sized is what is known of a file, with another size.
type sized struct {
	os.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }

func (f file) Open() (io.ReadCloser, error) {
	if f.content != nil {
		return io.NopCloser(bytes.NewReader(f.content)), nil
	}
	return os.Open(f.path)
}

// publish writes every module of the workspace to a folder that serves as a module proxy, and returns the folder. As
// in a release, the modules require one another at the version that they have.
func publish(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	tracked := strings.Split(strings.TrimSpace(run(t, root, nil, "git", "ls-files", "-co", "--exclude-standard")), "\n")
	var folders []string
	for _, name := range tracked {
		if path.Base(name) == "go.mod" && exists(name) {
			folders = append(folders, path.Dir(name))
		}
	}
	for _, folder := range folders {
		raw, err := os.ReadFile(filepath.Join(root, folder, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.Parse("go.mod", raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join(ours, folder)
		if mod.Module.Mod.Path != name {
			continue // a module that builds programs for tests, or input of one
		}
		for _, r := range mod.Require {
			if r.Mod.Path == ours || strings.HasPrefix(r.Mod.Path, ours+"/") {
				if err := mod.AddRequire(r.Mod.Path, version); err != nil {
					t.Fatal(err)
				}
			}
		}
		required, err := mod.Format()
		if err != nil {
			t.Fatal(err)
		}
		var files []zip.File
		for _, tracked := range tracked {
			if !exists(tracked) || inner(tracked, folders) != folder {
				continue
			}
			f := file{name: strings.TrimPrefix(tracked, folder+"/"), path: filepath.Join(root, tracked)}
			if f.name == "go.mod" {
				f.content = required
			}
			files = append(files, f)
		}
		write(t, proxy, module.Version{Path: name, Version: version}, required, files)
	}
	return proxy
}

func exists(name string) bool {
	_, err := os.Lstat(filepath.Join(root, name))
	return err == nil
}

// inner returns the folder, among those of modules, of the module that a file belongs to.
func inner(name string, folders []string) string {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(folders, dir) {
			return dir
		}
	}
	return "."
}

// write puts one version of a module into a proxy, in the layout of https://go.dev/ref/mod#goproxy-protocol.
func write(t *testing.T, proxy string, m module.Version, mod []byte, files []zip.File) {
	t.Helper()
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if err := zip.Create(&content, m, files); err != nil {
		t.Fatal(err)
	}
	info := fmt.Sprintf(`{"Version": %q, "Time": %q}`, m.Version, time.Now().UTC().Format(time.RFC3339))
	for name, content := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": []byte(info), m.Version + ".mod": mod,
		m.Version + ".zip": content.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command and returns what it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, problems.String())
	}
	return string(out)
}
