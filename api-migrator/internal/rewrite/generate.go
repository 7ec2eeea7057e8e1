// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/split"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Generate writes the DeepCopy methods again in a copy of the tree with all other changes, where the old version has
// generated ones, and where others name its types.
func Generate(ctx context.Context, l *layout.Layout, shadow *project.Workspace) (changeset.Result, error) {
	s := begin(l, nil)
	err := s.regenerate(ctx, shadow)
	return s.Result, err
}

// generateDeepcopy writes the DeepCopy methods of the packages in dirs, relative to the root. What was generated
// before goes first: its methods of types that have moved would not compile. The comment above the old file's first
// line (a licence) is kept; header stands in for it in a package that had none.
func generateDeepcopy(ctx context.Context, workspace *project.Workspace, dirs []string, header []byte) error {
	byModule := map[project.Module][]string{}
	for _, dir := range dirs {
		if err := tree.Folder(workspace.Root).Inside(path.Join(dir, project.DeepCopyFile)); err != nil {
			return err
		}
		name := filepath.Join(workspace.Root, filepath.FromSlash(dir), project.DeepCopyFile)
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove generated code: %w", err)
		}
		module := workspace.ModuleOf(dir)
		byModule[module] = append(byModule[module], workspace.ImportPath(dir))
	}
	headerFile, err := os.CreateTemp("", "api-migrator-header-*")
	if err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	defer os.Remove(headerFile.Name())
	_, err = headerFile.Write(header)
	if closing := headerFile.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	for module, packagePaths := range byModule {
		if err := generateIn(ctx, workspace, module, packagePaths, headerFile.Name()); err != nil {
			return err
		}
	}
	return nil
}

// generateIn runs the generator in one module, from which its packages and their dependencies are seen.
func generateIn(ctx context.Context, workspace *project.Workspace, module project.Module, packagePaths []string,
	headerFile string) error {
	var generator genall.Generator = objectGenerator{deepcopy.Generator{HeaderFile: headerFile}}
	config := &packages.Config{
		Context: ctx, Dir: filepath.Join(workspace.Root, filepath.FromSlash(module.Dir)), Env: workspace.Env(),
		BuildFlags: workspace.BuildFlags(module),
	}
	runtime, err := genall.Generators{&generator}.ForRootsWithConfig(config, packagePaths...)
	if err != nil {
		return fmt.Errorf("load packages for deepcopy: %w", err)
	}
	var complaints bytes.Buffer
	runtime.OutputRules.Default = genall.OutputArtifacts{Code: "", Config: ""}
	runtime.ErrorWriter = &complaints
	if runtime.Run() {
		return fmt.Errorf("generate deepcopy: %s", strings.TrimSpace(complaints.String()))
	}
	return nil
}

// regenerate writes the DeepCopy methods again, where the old version has generated ones, and in packages whose methods
// name types of the old version: the fields have other types now. A package whose types stay as they are keeps its
// file, which another generator may have written.
func (s *editing) regenerate(ctx context.Context, shadow *project.Workspace) error {
	before, err := tree.ReadIfThere(s.Project.Root, s.Dir(layout.OldPackage)+"/"+project.DeepCopyFile)
	if err != nil {
		return err
	}
	if before != nil && !s.MovesOnlyImporters() {
		byHeader := map[string][]string{}
		for _, dir := range s.ownDirs() {
			own, err := tree.ReadIfThere(s.Project.Root, path.Join(dir, project.DeepCopyFile))
			if err != nil {
				return err
			}
			if own == nil {
				own = before
			} else if s.keepsTypes(shadow, dir) {
				continue
			}
			header := string(source.GeneratedHeader(own))
			byHeader[header] = append(byHeader[header], dir)
		}
		for _, header := range slices.Sorted(maps.Keys(byHeader)) {
			if err := s.regenerateIn(ctx, shadow, byHeader[header], []byte(header)); err != nil {
				return err
			}
		}
	}
	for _, pkg := range s.Project.Packages { // after the types that they name have their methods
		at := slices.IndexFunc(pkg.Files, s.isRegenerated)
		if pkg == s.Old.Package || at < 0 || s.keepsTypes(shadow, pkg.Dir) {
			continue
		}
		if err := s.regenerateIn(ctx, shadow, []string{pkg.Dir}, source.GeneratedHeader(pkg.Files[at].Source)); err != nil {
			return err
		}
	}
	return nil
}

// regenerateIn writes the DeepCopy methods of packages again, with the header from before.
func (s *editing) regenerateIn(ctx context.Context, shadow *project.Workspace, dirs []string, header []byte) error {
	if err := generateDeepcopy(ctx, shadow, dirs, header); err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := s.take(shadow, path.Join(dir, project.DeepCopyFile)); err != nil {
			return err
		}
	}
	return nil
}

// keepsTypes reports whether DeepCopy methods of a package stay as they are: the copy declares the same types, of the
// same fields, with the same markers for generators.
func (s *editing) keepsTypes(shadow *project.Workspace, dir string) bool {
	names := map[string]string{}
	for _, pkg := range s.Project.Packages {
		if pkg.Dir == dir && pkg.Types != nil {
			for _, imported := range pkg.Types.Imports() {
				names[imported.Path()] = imported.Name()
			}
		}
	}
	before, err := typesIn(s.Project.Root, dir, names)
	if err != nil {
		return false // so that the methods are written again
	}
	after, err := typesIn(shadow.Root, dir, names)
	return err == nil && maps.Equal(before, after)
}

// typesIn are the types of a package as source.TypesToCopy has them.
func typesIn(root, dir string, names map[string]string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
	if err != nil {
		return nil, fmt.Errorf("list Go files: %w", err)
	}
	var texts [][]byte
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == project.DeepCopyFile {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read Go file: %w", err)
		}
		texts = append(texts, text)
	}
	return source.TypesToCopy(texts, names)
}

// ownDirs are the packages of the migration that have types.
func (s *editing) ownDirs() []string {
	dirs := []string{s.Dir(layout.OldPackage), s.Dir(layout.NewPackage)}
	for _, h := range []layout.Home{layout.SharedPackage, layout.InternalPackage} {
		holds := func(d *split.Declaration) bool { return s.GoesTo(d, h) && d.What == "type" }
		if countTrue(s.Graph.Declarations, holds) > 0 {
			dirs = append(dirs, s.Dir(h))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// isRegenerated reports whether a file of a package that imports the old version has DeepCopy methods that are written
// again.
func (s *editing) isRegenerated(file *project.File) bool {
	return file.Generated && path.Base(file.Path) == project.DeepCopyFile && s.Consumes(file) &&
		source.Imports(file.Syntax, s.Old.Package.Path)
}

// take makes a file of the copy, or its absence, a change.
func (s *editing) take(shadow *project.Workspace, name string) error {
	content, err := tree.ReadIfThere(shadow.Root, name)
	if err != nil {
		return err
	}
	was, err := tree.ReadIfThere(s.Project.Root, name)
	if err != nil {
		return err
	}
	if content != nil || was != nil {
		s.Changes[name] = &changeset.Change{Content: content, Why: "generated by controller-gen's object generator"}
	}
	return nil
}

// objectMarker is the marker of a type that says whether controller-gen writes DeepCopy methods for it.
const objectMarker = "kubebuilder:object:generate"

// objectGenerator is controller-gen's generator of DeepCopy methods, which fails on types that have none: interfaces,
// functions and channels. deepcopy-gen skips them where a marker is for all types of a package, and so does this one.
type objectGenerator struct{ deepcopy.Generator }

// Generate writes the methods of all other types.
func (g objectGenerator) Generate(ctx *genall.GenerationContext) error {
	for _, root := range ctx.Roots {
		marked, err := ctx.Collector.MarkersInPackage(root)
		if err != nil {
			return fmt.Errorf("read markers: %w", err)
		}
		ctx.Checker.Check(root)
		root.NeedTypesInfo()
		loader.EachType(root, func(_ *ast.File, _ *ast.GenDecl, spec *ast.TypeSpec) {
			if hasDeepCopy(root.TypesInfo.TypeOf(spec.Name)) {
				return
			}
			values := maps.Clone(marked[spec])
			if values == nil {
				values = markers.MarkerValues{}
			}
			values[objectMarker] = []any{false}
			marked[spec] = values // the collector returns the same map to the generator
		})
	}
	return g.Generator.Generate(ctx)
}

// hasDeepCopy reports whether a type is one for which deepcopy-gen could write methods.
func hasDeepCopy(declared types.Type) bool {
	switch declared.Underlying().(type) {
	case *types.Interface, *types.Signature, *types.Chan:
		return false
	}
	return true
}
