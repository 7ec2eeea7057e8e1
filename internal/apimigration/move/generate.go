// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// deepcopyFile is the name that controller-gen and deepcopy-gen both give their output.
const deepcopyFile = "zz_generated.deepcopy.go"

// generateDeepcopy writes the DeepCopy methods of the packages in dirs, relative to the root, anew. What was generated
// before goes first: its methods of types that have moved would not compile. The comment above the old file's first
// line (a licence) is kept; header stands in for it in a package that had none.
func generateDeepcopy(ctx context.Context, workspace *project.Workspace, dirs []string, header []byte) error {
	byModule := map[project.Module][]string{}
	for _, dir := range dirs {
		if err := tree.Folder(workspace.Root).Inside(path.Join(dir, deepcopyFile)); err != nil {
			return err
		}
		name := filepath.Join(workspace.Root, filepath.FromSlash(dir), deepcopyFile)
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
	var generator genall.Generator = deepcopy.Generator{HeaderFile: headerFile}
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
