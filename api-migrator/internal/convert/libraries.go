// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

const (
	extensionsPackage = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	conversionPackage = "sigs.k8s.io/controller-runtime/pkg/conversion"
	fuzzerPackage     = "k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metaFuzzerPackage = "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	randfillPackage   = "sigs.k8s.io/randfill"
	gofuzzPackage     = "github.com/google/gofuzz" // what apimachinery filled objects with before
)

// libraries is what generated code is written with, as the project's modules have it.
type libraries struct {
	fuzz string // the package that fills objects
}

// library is what `go list` says about a package.
type library struct {
	ImportPath string
	Imports    []string
	DepOnly    bool
	Module     *struct {
		Path, Version string
		Main          bool
	}
	Error *struct{ Err string }
	// Broken is the first package that the module cannot import, of this one and those that it imports and no package
	// before it did.
	Broken string `json:"-"`
}

// findLibraries asks for the packages that generated code imports, and says which one the module lacks, or nil. They
// come in the versions that the module requires, which `go get` without a version would raise.
func findLibraries(ctx context.Context, workspace *project.Workspace, dir string) (libraries, *hint.Error, error) {
	found, err := list(ctx, workspace, dir, conversionPackage, fuzzerPackage, metaFuzzerPackage)
	if err != nil {
		return libraries{}, nil, err
	}
	fuzz := randfillPackage
	for _, one := range found {
		isGofuzz := func(name string) bool { return project.Unvendored(name) == gofuzzPackage }
		if one.ImportPath == fuzzerPackage && slices.ContainsFunc(one.Imports, isGofuzz) {
			fuzz = gofuzzPackage
		}
	}
	filler, err := list(ctx, workspace, dir, fuzz)
	if err != nil {
		return libraries{}, nil, err
	}
	for _, one := range append(found, filler...) {
		if one.Broken != "" {
			return libraries{fuzz: fuzz}, missing(workspace, dir, one), nil
		}
	}
	return libraries{fuzz: fuzz}, nil, nil
}

// list finds packages with everything that they import.
func list(ctx context.Context, workspace *project.Workspace, dir string, names ...string) ([]library, error) {
	arguments := []string{"list", "-e", "-deps", "-json=ImportPath,Imports,DepOnly,Module,Error"}
	if workspace.HasModules() { // what nothing imports yet is not vendored
		arguments = append(arguments, "-mod=readonly")
	}
	for _, name := range names {
		vendored := filepath.Join(workspace.Root, "vendor", filepath.FromSlash(name))
		if _, err := os.Stat(vendored); err == nil && !workspace.HasModules() {
			name = vendored // without modules the go command looks for what it is given below GOPATH only
		}
		arguments = append(arguments, name)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir, command.Env = filepath.Join(workspace.Root, filepath.FromSlash(dir)), workspace.Env()
	out, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("list packages: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	required, err := requirements(workspace, dir)
	if err != nil {
		return nil, err
	}
	var found []library
	broken := ""
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var one library
		if err := decoder.Decode(&one); err != nil {
			return nil, fmt.Errorf("list packages: %w", err)
		}
		one.ImportPath = project.Unvendored(one.ImportPath)
		unlisted := required != nil && one.Module != nil && !one.Module.Main && !required[one.Module.Path]
		if (one.Error != nil || unlisted) && broken == "" {
			broken = one.ImportPath
		}
		if !one.DepOnly { // it comes after what it imports
			one.Broken, broken = broken, ""
			found = append(found, one)
		}
	}
	return found, nil
}

// requirements are the modules that go.mod names: all that the packages of a module need, indirectly too. (Before Go
// 1.17 it named fewer, and below GOPATH there is none: then nil.)
func requirements(workspace *project.Workspace, dir string) (map[string]bool, error) {
	if !workspace.HasModules() {
		return nil, nil
	}
	name := filepath.Join(workspace.Root, filepath.FromSlash(workspace.ModuleOf(dir).Dir), "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read requirements: %w", err)
	}
	file, err := modfile.ParseLax(name, content, nil)
	if err != nil {
		return nil, fmt.Errorf("read requirements: %w", err)
	}
	if file.Go == nil || semver.Compare("v"+file.Go.Version, "v1.17") < 0 {
		return nil, nil
	}
	required := map[string]bool{}
	for _, one := range file.Require {
		required[one.Mod.Path] = true
	}
	return required, nil
}

func missing(workspace *project.Workspace, dir string, wanted library) *hint.Error {
	const need = "the conversion and its test need the package %s, but "
	if !workspace.HasModules() {
		return &hint.Error{Try: "dep ensure -add " + wanted.ImportPath,
			Err: fmt.Errorf(need+"%s is neither vendored nor below GOPATH", wanted.ImportPath, wanted.Broken)}
	}
	get := goCommand(workspace, dir) + " get " + wanted.ImportPath
	if wanted.Module != nil && wanted.Module.Version != "" {
		get += "@" + wanted.Module.Version
	}
	if workspace.Vendored(workspace.ModuleOf(dir)) {
		get += " && " + goCommand(workspace, dir) + " mod vendor"
	}
	return &hint.Error{Try: get,
		Err: fmt.Errorf(need+"go.mod and go.sum do not give %s", wanted.ImportPath, wanted.Broken)}
}

// goCommand is the go command for the module of a folder, to be run in the project's root.
func goCommand(workspace *project.Workspace, dir string) string {
	if module := workspace.ModuleOf(dir); module.Dir != "." {
		return "go -C " + module.Dir
	}
	return "go"
}
