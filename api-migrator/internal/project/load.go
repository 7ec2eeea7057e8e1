// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package project reads the Go project of an operator: its packages with types, the API versions and kinds that they
// define, who imports them, and the manifests of CustomResourceDefinitions.
//
// It writes nothing but the go.mod of a copy (Adopt), and it never guesses: packages that do not compile are named
// (Project.Broken), with what is wrong. Paths in its values are relative to the project's root, with slashes, so that
// they mean the same in a copy of the tree.
package project

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/progress"
)

// Project is a tree of Go code, type-checked.
type Project struct {
	Workspace *Workspace
	// Root is the workspace's.
	Root string
	// Module is the path of the first module.
	Module   string
	Fset     *token.FileSet
	Packages []*Package // sorted by path; the packages of external tests are among them
	// Broken are the packages that do not compile, sorted by path.
	Broken []Broken
	// Ignored are Go files that were not checked: build constraints exclude them, or they use cgo.
	Ignored []string
	// Libraries are for a copy of the project, see LoadCopy.
	Libraries Libraries
	overlay   map[string][]byte // contents by absolute path
	list      Lister
	// manifests are those of the tree, see Manifests.
	manifests struct {
		once              sync.Once
		current, released []Manifest
		err               error
	}
}

// Package is one package of the project. Files of its in-package tests belong to it.
type Package struct {
	Path, Name string
	Dir        string // relative to the root
	Types      *types.Package
	Files      []*File // sorted by path
}

// File is one Go file, with the types of what it mentions.
type File struct {
	Path   string // relative to the root
	Source []byte
	Syntax *ast.File
	// Info has Types, Defs, Uses and Implicits, of this file and of those that were loaded with it.
	Info      *types.Info
	Generated bool
	Test      bool
}

// Registers reports whether a file is what register-gen or defaulter-gen writes. It is generated, but nothing else
// registers the kinds of its package, or what sets their defaults, and code by hand calls it: a new version needs one at
// once.
func (f *File) Registers() bool {
	name := path.Base(f.Path)
	return name == "zz_generated.register.go" || name == "zz_generated.defaults.go"
}

// Load type-checks the project that dir belongs to. Code that does not compile is no error; see Project.Broken.
func Load(ctx context.Context, dir string) (*Project, error) {
	workspace, err := Find(dir)
	if err != nil {
		return nil, err
	}
	return LoadWorkspace(ctx, workspace)
}

// LoadWorkspace type-checks all modules of a workspace.
func LoadWorkspace(ctx context.Context, workspace *Workspace) (*Project, error) {
	return newProject(workspace).load(ctx)
}

// LoadWith type-checks all modules of a workspace as if files, by paths relative to its root, were there. What they
// import need not be vendored yet.
func LoadWith(ctx context.Context, workspace *Workspace, files map[string][]byte) (*Project, error) {
	p := newProject(workspace)
	for name, content := range files {
		p.overlay[filepath.Join(p.Root, filepath.FromSlash(name))] = content
	}
	return p.load(ctx)
}

// LoadCopy type-checks a workspace that has the modules of another project and requires the same of others: the go
// command need not find or compile again what that project has taken from it.
func LoadCopy(ctx context.Context, workspace *Workspace, libraries Libraries) (*Project, error) {
	p := newProject(workspace)
	p.Libraries = libraries
	return p.load(ctx)
}

// LoadListed type-checks a workspace whose packages list knows. The go command is not started.
func LoadListed(ctx context.Context, workspace *Workspace, list Lister) (*Project, error) {
	p := newProject(workspace)
	p.list = list
	return p.load(ctx)
}

func newProject(workspace *Workspace) *Project {
	return &Project{Workspace: workspace, Root: workspace.Root, Module: workspace.Modules[0].Path,
		Fset: token.NewFileSet(), Libraries: Libraries{}, overlay: map[string][]byte{}, list: packages.Load}
}

func (p *Project) load(ctx context.Context) (*Project, error) {
	var loaded []*packages.Package
	for _, module := range p.Workspace.Modules {
		flags := p.Workspace.BuildFlags(module)
		if len(p.overlay) > 0 && p.Workspace.Vendored(module) {
			flags = []string{"-mod=readonly"}
		}
		progress.Step(ctx, "loading and type-checking %s", module.Path)
		found, err := p.loadModule(ctx, module, packages.Config{
			Context: ctx, Dir: filepath.Join(p.Root, filepath.FromSlash(module.Dir)), Env: p.Workspace.Env(),
			Fset: p.Fset, Tests: true, Overlay: p.overlay, BuildFlags: flags,
		})
		if err != nil {
			if err = p.refused(ctx, module, err); err != nil {
				return nil, err
			}
		}
		loaded = append(loaded, found...)
	}
	p.takeBroken(loaded)
	if err := p.take(loaded); err != nil {
		return nil, err
	}
	if len(p.Packages) == 0 && len(p.Broken) == 0 {
		return nil, hint.Errorf("go list ./...", "no Go packages in %s", p.Root)
	}
	return p, nil
}

// refused is about a module that the go command refuses, such as one whose go.mod needs an update. Next to others it counts
// as a package that does not compile, so that no one takes it for code that does not use a version.
func (p *Project) refused(ctx context.Context, module Module, reason error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := strings.Join(strings.Fields(reason.Error()), " ")
	if len(p.Workspace.Modules) == 1 {
		return hint.Errorf("go list ./...", "load packages of %s: %s", module.Path, text)
	}
	p.Broken = append(p.Broken, Broken{Path: module.Path, Problems: []Problem{{Text: text, message: text}}})
	return nil
}

// take keeps each file once: a test variant of a package repeats its files with types of its own.
func (p *Project) take(loaded []*packages.Package) error {
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.ID, b.ID) })
	byPath, seen := map[string]*Package{}, map[string]bool{}
	for _, variants := range []bool{false, true} { // the plain packages first
		for _, from := range loaded {
			if (from.ForTest != "") != variants || strings.HasSuffix(from.PkgPath, ".test") {
				continue
			}
			if err := p.takePackage(from, byPath, seen); err != nil {
				return err
			}
		}
	}
	for _, pkg := range byPath {
		slices.SortFunc(pkg.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
		p.Packages = append(p.Packages, pkg)
	}
	slices.SortFunc(p.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(p.Ignored)
	p.Ignored = slices.Compact(p.Ignored)
	return nil
}

func (p *Project) takePackage(from *packages.Package, byPath map[string]*Package, seen map[string]bool) error {
	for _, file := range from.IgnoredFiles {
		if rel := p.relative(file); strings.HasSuffix(rel, ".go") {
			p.Ignored = append(p.Ignored, rel)
		}
	}
	for _, file := range from.GoFiles { // the compiler sees what cgo makes of a file that has import "C"
		if rel := p.relative(file); !slices.Contains(from.CompiledGoFiles, file) && !strings.HasPrefix(rel, "../") {
			p.Ignored = append(p.Ignored, rel)
		}
	}
	if len(from.Syntax) != len(from.CompiledGoFiles) {
		return nil // a file could not be read, which is a problem of the package
	}
	pkg := byPath[from.PkgPath]
	var added []*ast.File
	for i, syntax := range from.Syntax {
		if !seen[p.relative(from.CompiledGoFiles[i])] {
			added = append(added, syntax)
		}
	}
	info := from.TypesInfo
	if len(added) < len(from.Syntax) {
		info = infoOf(info, added)
	}
	for i, syntax := range from.Syntax {
		name := p.relative(from.CompiledGoFiles[i])
		if seen[name] || strings.HasPrefix(name, "../") { // what cgo generates lies in the build cache
			continue
		}
		seen[name] = true
		source, ok := p.overlay[from.CompiledGoFiles[i]]
		if !ok {
			var err error
			if source, err = os.ReadFile(from.CompiledGoFiles[i]); err != nil {
				return fmt.Errorf("read source: %w", err)
			}
		}
		if pkg == nil {
			pkg = &Package{Path: from.PkgPath, Name: from.Name,
				Dir: filepath.ToSlash(filepath.Dir(name)), Types: from.Types}
			byPath[from.PkgPath] = pkg
		}
		pkg.Files = append(pkg.Files, &File{
			Path: name, Source: source, Syntax: syntax, Info: info,
			Generated: ast.IsGenerated(syntax), Test: strings.HasSuffix(name, "_test.go"),
		})
	}
	return nil
}

// infoOf is what is used of an info, and of some of its files alone. A test variant of a package has the types of all
// files of the package again, and nothing takes more memory than these.
func infoOf(all *types.Info, files []*ast.File) *types.Info {
	isIn := func(pos token.Pos) bool {
		return slices.ContainsFunc(files, func(f *ast.File) bool { return f.FileStart <= pos && pos <= f.FileEnd })
	}
	return &types.Info{Types: only(all.Types, isIn), Defs: only(all.Defs, isIn), Uses: only(all.Uses, isIn),
		Implicits: only(all.Implicits, isIn)}
}

// only is a map with some of the nodes. Maps do not become smaller when something is deleted.
func only[N interface {
	ast.Node
	comparable
}, T any](all map[N]T, isIn func(token.Pos) bool) map[N]T {
	some := map[N]T{}
	for node, value := range all {
		if isIn(node.Pos()) {
			some[node] = value
		}
	}
	return some
}

func (p *Project) relative(file string) string {
	rel, err := filepath.Rel(p.Root, file)
	if err != nil {
		return "../" + file
	}
	return filepath.ToSlash(rel)
}

// Offset is the place of pos in its file.
func (p *Project) Offset(pos token.Pos) int { return p.Fset.Position(pos).Offset }

// Place names a position for users: file and line.
func (p *Project) Place(pos token.Pos) string {
	position := p.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.relative(position.Filename), position.Line)
}

// Text is the source of a node.
func (f *File) Text(p *Project, node ast.Node) string {
	return string(bytes.Clone(f.Source[p.Offset(node.Pos()):p.Offset(node.End())]))
}

// PackageName is how a file calls what it imports; empty if that is not known.
func (f *File) PackageName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	if name, ok := f.Info.Implicits[spec].(*types.PkgName); ok {
		return name.Name()
	}
	return ""
}
