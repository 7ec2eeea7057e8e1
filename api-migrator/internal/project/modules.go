// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// findModules collects the modules of the repository that lead to one another: by a replacement with a folder, or by
// the same go.work.
func findModules(start string) (*Workspace, error) {
	top := above(start, ".git")
	if top == "" { // no repository: as far up as modules go
		for top = start; ; {
			next := above(filepath.Dir(top), "go.mod")
			if next == "" || next == top {
				break
			}
			top = next
		}
	}
	files, err := moduleFiles(top, start)
	if err != nil {
		return nil, err
	}
	if files[start] == nil {
		name := filepath.Join(start, "go.mod")
		return nil, hint.Errorf("ls -l "+shell.Quote(name),
			"%s is no file that can be read, but a link, say, which says nothing about the place of its module", name)
	}
	members := map[string]bool{start: true}
	work, used, err := ownWork(top, start)
	if err != nil {
		return nil, err
	}
	for _, folder := range used {
		members[folder] = files[folder] != nil
	}
	for grown := true; grown; {
		grown = false
		for folder, file := range files {
			for _, target := range localReplacements(folder, file) {
				if files[target] != nil && members[folder] != members[target] {
					members[folder], members[target], grown = true, true, true
				}
			}
		}
	}
	return assemble(start, work, files, members)
}

func assemble(start, work string, files map[string]*modfile.File, members map[string]bool) (*Workspace, error) {
	w := &Workspace{Root: start}
	if work != "" {
		w.Root = common(w.Root, filepath.Dir(work))
	}
	for folder, member := range members {
		if member {
			w.Root = common(w.Root, folder)
		}
	}
	if work != "" {
		w.work = slashed(w.Root, work)
	}
	for folder, member := range members {
		if !member {
			continue
		}
		if files[folder].Module == nil {
			return nil, hint.Errorf("go mod init MODULE", "%s names no module", filepath.Join(folder, "go.mod"))
		}
		w.Modules = append(w.Modules, Module{Path: files[folder].Module.Mod.Path, Dir: slashed(w.Root, folder)})
	}
	slices.SortFunc(w.Modules, func(a, b Module) int { return strings.Compare(a.Dir, b.Dir) })
	for i, module := range w.Modules {
		listed, err := os.ReadFile(filepath.Join(w.Root, filepath.FromSlash(module.Dir), "vendor", "modules.txt"))
		if err != nil {
			continue // nothing is vendored
		}
		w.Modules[i].Vendors = slices.ContainsFunc(w.Modules, func(other Module) bool {
			return other != module && strings.Contains("\n"+string(listed), "\n# "+other.Path+" ")
		})
	}
	return w, nil
}

// moduleFiles reads every go.mod below top, but for those that belong to tests and dependencies. The way to start is
// always looked at.
func moduleFiles(top, start string) (map[string]*modfile.File, error) {
	files := map[string]*modfile.File{}
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return filepath.SkipDir
		case err != nil:
			return err
		case entry.IsDir():
			base := entry.Name()
			aside := base == "vendor" || base == "node_modules" || base == "testdata" || strings.HasPrefix(base, ".") ||
				strings.HasPrefix(base, "_")
			if aside && !within(name, start) {
				return filepath.SkipDir
			}
			return nil
		case entry.Name() != "go.mod" || !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := modfile.ParseLax(name, content, nil)
		if err != nil {
			if filepath.Dir(name) != start {
				return nil // a broken file that is none of ours
			}
			return hint.Errorf("go mod verify", "%s is no go.mod: %v", name, err)
		}
		// ParseLax drops replacements, since it is made for dependencies.
		if strict, err := modfile.Parse(name, content, nil); err == nil {
			file = strict
		}
		files[filepath.Dir(name)] = file
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for modules: %w", err)
	}
	return files, nil
}

func localReplacements(folder string, file *modfile.File) []string {
	var targets []string
	for _, replace := range file.Replace {
		if modfile.IsDirectoryPath(replace.New.Path) && replace.New.Version == "" {
			targets = append(targets, absolute(folder, replace.New.Path))
		}
	}
	return targets
}

// ownWork finds the go.work of the repository that uses the module in start, and the folders that it uses.
func ownWork(top, start string) (string, []string, error) {
	folder := above(start, "go.work")
	if folder == "" || !within(top, folder) || os.Getenv("GOWORK") == "off" {
		return "", nil, nil
	}
	name := filepath.Join(folder, "go.work")
	content, err := os.ReadFile(name)
	if err != nil {
		return "", nil, fmt.Errorf("read go.work: %w", err)
	}
	file, err := modfile.ParseWork(name, content, nil)
	if err != nil {
		return "", nil, hint.Errorf("go work sync", "%s: %v", name, err)
	}
	var used []string
	for _, use := range file.Use {
		if target := absolute(folder, use.Path); within(top, target) {
			used = append(used, target)
		}
	}
	if !slices.Contains(used, start) {
		return "", nil, nil
	}
	return name, used, nil
}
