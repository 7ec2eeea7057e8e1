// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"fmt"
	"go/build"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// Workspace is where the code of a project lies: the modules of one repository that replace or use one another, or a
// tree below GOPATH. Each module is loaded as it is built by itself, so that no go.work has to be made.
type Workspace struct {
	// Root is the absolute path of the folder that holds all modules.
	Root string
	// Modules stand in the order of their folders. Without modules, the tree below GOPATH is the only one.
	Modules []Module
	gopath  []string // folders of GOPATH; empty with modules
	work    string   // the project's own go.work, relative to the root; empty without
}

// Module is a tree of packages whose import paths begin alike.
type Module struct {
	Path string
	Dir  string // relative to the root
	// Vendors: its folder vendor has a copy of another module of the project, which is never changed.
	Vendors bool
}

// Find looks for the modules around a folder.
func Find(dir string) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find folder: %w", err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, hint.Errorf("api-migrator inspect DIR", "no such folder: %s", dir)
	}
	module := above(abs, "go.mod")
	if module == "" || os.Getenv("GO111MODULE") == "off" {
		return findInGOPATH(abs, dir)
	}
	return findModules(module)
}

// Root is the folder that holds all modules of the project.
func Root(dir string) (string, error) {
	w, err := Find(dir)
	if err != nil {
		return "", err
	}
	return w.Root, nil
}

// above is the folder nearest to dir, or dir itself, that has an entry of that name; empty if there is none.
func above(dir, name string) string {
	for folder := dir; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return folder
		}
		if folder == filepath.Dir(folder) {
			return ""
		}
	}
}

// findInGOPATH takes a tree without go.mod. Its root is where dependencies are pinned, or that of the repository.
func findInGOPATH(abs, asked string) (*Workspace, error) {
	list := os.Getenv("GOPATH")
	if list == "" {
		list = build.Default.GOPATH
	}
	var folders []string
	for _, folder := range filepath.SplitList(list) {
		if resolved, err := filepath.EvalSymlinks(folder); err == nil {
			folders = append(folders, resolved)
		}
	}
	for _, folder := range folders {
		src := filepath.Join(folder, "src")
		if !within(src, abs) || abs == src {
			continue
		}
		root := abs
		for _, name := range []string{"Gopkg.toml", "glide.yaml", "vendor", "PROJECT", ".git"} {
			if found := above(abs, name); found != "" && within(src, found) && found != src {
				root = found
				break
			}
		}
		return &Workspace{Root: root, Modules: []Module{{Path: slashed(src, root), Dir: "."}}, gopath: folders}, nil
	}
	try, more := "go mod init MODULE", ""
	if below := moduleBelow(abs); below != "" {
		try, more = "api-migrator inspect "+shell.Quote(filepath.Join(asked, below)), "; there is one in "+below
	} else if code, err := filepath.Glob(filepath.Join(abs, "*.go")); err == nil && len(code) == 0 {
		try = "api-migrator inspect DIR" // not even the folder of a package
	}
	return nil, hint.Errorf(try, "no go.mod in %s or above it, and it is not below src in GOPATH%s", asked, more)
}

// moduleBelow is the first folder with a go.mod at most two levels below a folder; empty if there is none.
func moduleBelow(dir string) string {
	for _, pattern := range []string{"*/go.mod", "*/*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			continue
		}
		if below, err := filepath.Rel(dir, filepath.Dir(found[0])); err == nil {
			return below
		}
	}
	return ""
}

// In is the workspace as it is once its tree has been copied below folder. Its root says where the tree goes.
func (w *Workspace) In(folder string) *Workspace {
	moved := *w
	moved.Root = folder
	if len(w.gopath) > 0 { // the copy is found before the original
		moved.Root = filepath.Join(folder, "src", filepath.FromSlash(w.Modules[0].Path))
		moved.gopath = append([]string{folder}, w.gopath...)
	}
	return &moved
}

// Adopt makes a copy independent of its place: what its modules replace with folders outside the tree, relative to the
// original, they find by an absolute path.
func (w *Workspace) Adopt(original *Workspace) error {
	if len(w.gopath) > 0 {
		return nil
	}
	for _, module := range w.Modules {
		folder := filepath.Join(original.Root, filepath.FromSlash(module.Dir))
		name := filepath.Join(w.Root, filepath.FromSlash(module.Dir), "go.mod")
		content, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read go.mod: %w", err)
		}
		file, err := modfile.Parse(name, content, nil)
		if err != nil {
			return fmt.Errorf("read go.mod: %w", err)
		}
		changed := false
		for _, replace := range slices.Clone(file.Replace) {
			target := absolute(folder, replace.New.Path)
			if !modfile.IsDirectoryPath(replace.New.Path) || filepath.IsAbs(replace.New.Path) ||
				within(original.Root, target) {
				continue
			}
			if err := file.AddReplace(replace.Old.Path, replace.Old.Version, target, ""); err != nil {
				return fmt.Errorf("change go.mod: %w", err)
			}
			changed = true
		}
		if !changed {
			continue
		}
		if content, err = file.Format(); err != nil {
			return fmt.Errorf("change go.mod: %w", err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return fmt.Errorf("change go.mod: %w", err)
		}
	}
	return nil
}

// Env is the environment in which the go command sees this workspace and no other.
func (w *Workspace) Env() []string {
	if len(w.gopath) > 0 {
		return append(os.Environ(), "GO111MODULE=off", "GOPATH="+strings.Join(w.gopath, string(filepath.ListSeparator)))
	}
	work := "off"
	if w.work != "" {
		work = filepath.Join(w.Root, filepath.FromSlash(w.work))
	}
	return append(os.Environ(), "GOWORK="+work)
}

// BuildFlags are what the go command needs to see one of the modules. Below GOPATH, without -trimpath, everything that
// has been compiled for the original would be compiled again for a copy, dependencies included.
func (w *Workspace) BuildFlags(module Module) []string {
	switch {
	case !w.HasModules():
		return []string{"-trimpath"}
	case module.Vendors:
		return []string{"-mod=readonly"}
	default:
		return nil
	}
}

// Vendored reports whether a module's dependencies are in its folder vendor, where the go command takes them from. What
// nothing imports yet is not there.
func (w *Workspace) Vendored(module Module) bool {
	_, err := os.Stat(filepath.Join(w.Root, filepath.FromSlash(module.Dir), "vendor", "modules.txt"))
	return w.HasModules() && err == nil
}

// HasModules reports whether there is a go.mod; without, the tree lies below GOPATH.
func (w *Workspace) HasModules() bool { return len(w.gopath) == 0 }

// ModuleOf is the module that a folder, relative to the root, belongs to.
func (w *Workspace) ModuleOf(dir string) Module {
	best := w.Modules[0]
	for _, module := range w.Modules {
		if module.Dir == "." || dir == module.Dir || strings.HasPrefix(dir, module.Dir+"/") {
			best = module // a folder sorts before those below it
		}
	}
	return best
}

// ImportPath is the path by which code imports the package in a folder, relative to the root.
func (w *Workspace) ImportPath(dir string) string {
	module := w.ModuleOf(dir)
	if module.Dir == "." {
		return path.Join(module.Path, dir)
	}
	return path.Join(module.Path, strings.TrimPrefix(dir, module.Dir))
}

func absolute(folder, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(folder, filepath.FromSlash(name))
}

// within reports whether name is folder or lies below it.
func within(folder, name string) bool {
	rel, err := filepath.Rel(folder, name)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// common is the folder nearest to both that holds both.
func common(a, b string) string {
	for !within(a, b) {
		a = filepath.Dir(a)
	}
	return a
}

func slashed(root, name string) string {
	rel, err := filepath.Rel(root, name)
	if err != nil {
		return filepath.ToSlash(name)
	}
	return filepath.ToSlash(rel)
}
