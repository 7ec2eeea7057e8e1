// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/packages"
	"sigs.k8s.io/controller-tools/pkg/deepcopy"
	"sigs.k8s.io/controller-tools/pkg/genall"
)

// deepcopyFile is the name that controller-gen and deepcopy-gen both give their output.
const deepcopyFile = "zz_generated.deepcopy.go"

// generateDeepcopy writes the DeepCopy methods of the packages in dirs, relative to root, anew. What was generated
// before goes first: its methods of types that have moved would not compile. The comment above the old file's first
// line (a licence) is kept; header stands in for it in a package that had none.
func generateDeepcopy(ctx context.Context, root string, dirs []string, header []byte) error {
	for _, dir := range dirs {
		name := filepath.Join(root, filepath.FromSlash(dir), deepcopyFile)
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("remove generated code: %w", err)
		}
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
	var generator genall.Generator = deepcopy.Generator{HeaderFile: headerFile.Name()}
	patterns := make([]string, 0, len(dirs))
	for _, dir := range dirs {
		patterns = append(patterns, "./"+dir)
	}
	runtime, err := genall.Generators{&generator}.ForRootsWithConfig(&packages.Config{Context: ctx, Dir: root}, patterns...)
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

// generatedHeader is the comment that stands before the line "Code generated" of a generated file, without build
// constraints.
func generatedHeader(source []byte) []byte {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil
	}
	var header []string
	for _, group := range file.Comments {
		if group.Pos() > file.Package || strings.Contains(group.Text(), "Code generated") {
			continue
		}
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, "//go:build") && !strings.HasPrefix(comment.Text, "// +build") {
				header = append(header, comment.Text)
			}
		}
	}
	return []byte(strings.Join(header, "\n"))
}
