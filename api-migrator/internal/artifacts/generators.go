// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/makefile"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// codeGenerators finds the programs of k8s.io/code-generator and of kube-openapi, their scripts, and the images of
// kube-code-generator with their variables, in a command.
var codeGenerators = regexp.MustCompile(`\b(client|lister|informer|applyconfiguration|conversion|deepcopy|defaulter|openapi)-gen\b|` +
	`\bgo-to-protobuf\b|\bgenerate-(internal-)?groups\.sh\b|\bkube_codegen\.sh\b|` +
	`\bkube-code-generator\b|\bGROUPS_VERSION=|\bGENERATION_TARGETS=`)

// ownGenerators are the project's targets and scripts that run those programs.
func (s *documents) ownGenerators() []string {
	var list []string
	scripts := s.generatorScripts()
	called := map[string]bool{}
	s.eachMakefile(func(module project.Module, text string) {
		makefile.EachCommand(text, func(target, line string) {
			runs := codeGenerators.MatchString(line) && !strings.Contains(line, "go install") && !strings.Contains(line, "go get")
			for _, script := range scripts {
				if strings.Contains(line, path.Base(script)) {
					runs, called[script] = true, true
				}
			}
			if runs {
				list = append(list, makeCommand(target, module.Dir))
			}
		})
	})
	for _, script := range scripts {
		if !called[script] {
			list = append(list, "./"+shell.Quote(script))
		}
	}
	return list
}

// generatorScripts are the scripts in the folder hack that run generators, other than updateScript, which has its own
// rule, and those that only compare.
func (s *documents) generatorScripts() []string {
	folder := path.Dir(updateScript)
	files, err := tree.Folder(s.Project.Root).Paths()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(files, func(file string) bool {
		if path.Dir(file) != folder || path.Ext(file) != ".sh" || file == updateScript ||
			strings.HasPrefix(path.Base(file), "verify") {
			return true
		}
		content, err := tree.ReadIfThere(s.Project.Root, file)
		return err != nil || !codeGenerators.Match(content)
	})
}

// readForSchemas returns the packages that openapi-gen has to read too for a file that it has written with names of
// types of the old version, in strings: those that the types go to. None for any other file.
func (s *documents) readForSchemas(file *project.File) []string {
	if source.Generator(file.Source) != "openapi-gen" || !bytes.Contains(file.Source, []byte(`"`+s.Old.Package.Path+".")) {
		return nil
	}
	var read []string
	for _, d := range s.Graph.Declarations {
		home := s.HomeOf(d, layout.Importer)
		if d.What != "type" || home == layout.OldPackage || slices.Contains(read, s.ImportPath(home)) ||
			!slices.ContainsFunc(d.Names, func(name string) bool {
				return bytes.Contains(file.Source, []byte(`"`+s.Old.Package.Path+"."+name+`"`))
			}) {
			continue
		}
		read = append(read, s.ImportPath(home))
	}
	slices.Sort(read)
	return read
}
