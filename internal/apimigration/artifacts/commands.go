// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/changeset"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/finding"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/makefile"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/source"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// updateScript is where client-gen's users keep their command.
const updateScript = "hack/update-codegen.sh"

// Commands are those that make what this program leaves to them, for all changes of the migration.
func Commands(l *layout.Layout, changes changeset.Set) ([]string, finding.Report) {
	s := begin(l, nil)
	s.Changes = changes
	list := s.commands()
	return list, s.Report
}

// commands are the project's own that make what is left to them, as far as there are such commands. A file for which no
// command is known is a finding.
func (s *documents) commands() []string {
	list := []string{}
	if files := s.leftToGenerators(); len(files) > 0 {
		found := s.generators()
		list = append(list, found...)
		if len(found) == 0 {
			s.Note(files[0], "generate again: %s. No command is known (a target generate in a Makefile, %s, "+
				"go:generate): run what has made them",
				strings.Join(files, ", "), updateScript)
		}
	}
	for _, command := range append(s.makersOfMissing(), s.makersOfDoubles()...) {
		if !slices.Contains(list, command) {
			list = append(list, command)
		}
	}
	if s.changesGeneratedManifests() {
		list = append(list, s.makeTargets("manifests")...)
	}
	list = append(list, s.writersOfManifests()...)
	for _, module := range s.Project.Workspace.Modules {
		if module.Vendors {
			list = append(list, inFolder("go -C %s mod vendor", "go mod vendor", module.Dir))
		}
	}
	return list
}

// leftToGenerators lists folders of generated code, other than DeepCopy methods, that knows the old version or belongs
// to it.
func (s *documents) leftToGenerators() []string {
	var folders []string
	if s.MovesOnlyImporters() {
		return nil // the versions do not change
	}
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			switch {
			case !file.Generated || path.Base(file.Path) == project.DeepCopyFile:
			case pkg == s.Old.Package:
				folders = append(folders, pkg.Dir, s.Dir(layout.NewPackage))
			case source.Imports(file.Syntax, s.Old.Package.Path):
				folders = append(folders, pkg.Dir)
			}
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// generators finds the project's command: a script of client-gen's users, unless make calls it, then make, then go
// generate.
func (s *documents) generators() []string {
	targets := s.makeTargets("generate")
	for _, folder := range []string{s.Project.Workspace.ModuleOf(s.Dir(layout.OldPackage)).Dir, "."} {
		script, err := tree.ReadIfThere(s.Project.Root, path.Join(folder, updateScript))
		if err == nil && script != nil && (len(targets) == 0 || !s.makefileNames(folder, path.Base(updateScript))) {
			return []string{inFolder("(cd %s && ./"+updateScript+")", "./"+updateScript, folder)}
		}
	}
	if len(targets) > 0 {
		return targets
	}
	var list []string
	for _, module := range s.Project.Workspace.Modules {
		if slices.ContainsFunc(s.Project.Packages, func(p *project.Package) bool {
			return s.Project.Workspace.ModuleOf(p.Dir) == module && hasGoGenerate(p)
		}) {
			list = append(list, inFolder("go -C %s generate ./...", "go generate ./...", module.Dir))
		}
	}
	return list
}

func hasGoGenerate(pkg *project.Package) bool {
	return slices.ContainsFunc(pkg.Files, func(f *project.File) bool {
		return bytes.Contains(f.Source,
			[]byte("\n//go:generate "))
	})
}

// makeTargets are the commands for the Makefiles next to a go.mod that have the target.
func (s *documents) makeTargets(target string) []string {
	rule := regexp.MustCompile(`(?m)^` + target + `\s*:($|[^=])`)
	var list []string
	for _, module := range s.Project.Workspace.Modules {
		if content, err := tree.ReadIfThere(s.Project.Root,
			path.Join(module.Dir, "Makefile")); err == nil && rule.Match(content) {
			list = append(list, inFolder("make -C %s "+target, "make "+target, module.Dir))
		}
	}
	return list
}

func (s *documents) makefileNames(folder, name string) bool {
	content, err := tree.ReadIfThere(s.Project.Root, path.Join(folder, "Makefile"))
	return err == nil && bytes.Contains(content, []byte(name))
}

func (s *documents) changesGeneratedManifests() bool {
	for _, change := range s.Changes {
		if bytes.Contains(change.Content, []byte("controller-gen.kubebuilder.io/version:")) {
			return true
		}
	}
	return false
}

// makersOfMissing are the Makefiles' targets that make packages of the project which are not there: those with a command
// that names the package's folder or, for doubles, those that are named after it, such as generate-mocks.
func (s *documents) makersOfMissing() []string {
	var list []string
	for _, broken := range s.Project.Broken {
		for _, missing := range s.Project.NotGenerated(broken) {
			name := path.Base(missing)
			for _, module := range s.Project.Workspace.Modules {
				folder, own := strings.CutPrefix(missing, module.Path+"/")
				content, err := tree.ReadIfThere(s.Project.Root, path.Join(module.Dir, "Makefile"))
				if err != nil || !own {
					continue
				}
				makefile.EachCommand(string(content), func(target, line string) {
					if strings.Contains(line, folder) && !isRemoval.MatchString(line) ||
						isDouble.MatchString(name) && strings.Contains(target, strings.TrimSuffix(name, "s")) {
						list = append(list, inFolder("make -C %s "+target, "make "+target, module.Dir))
					}
				})
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var (
	isDouble  = regexp.MustCompile(`^(mock|fake)`)
	isRemoval = regexp.MustCompile(`^\t[@-]*rm\b`)
)

// makersOfDoubles are the Makefiles' targets that run the programs which have written doubles that change.
func (s *documents) makersOfDoubles() []string {
	var list []string
	for _, pkg := range s.Project.Packages {
		for _, file := range pkg.Files {
			maker := source.DoubleMaker(file.Source)
			if maker == "" || s.Changes[file.Path] == nil {
				continue
			}
			for _, module := range s.Project.Workspace.Modules {
				content, err := tree.ReadIfThere(s.Project.Root, path.Join(module.Dir, "Makefile"))
				if err != nil {
					continue
				}
				makefile.EachCommand(string(content), func(target, line string) {
					if strings.Contains(strings.ToLower(line), maker) && !strings.Contains(line, "go install") {
						list = append(list, inFolder("make -C %s "+target, "make "+target, module.Dir))
					}
				})
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// writersOfManifests are the commands that write manifests of the kinds again, besides controller-gen's. A file that
// cannot be read has ended the plan before.
func (s *documents) writersOfManifests() []string {
	manifests, err := s.Project.Manifests()
	if err != nil || s.Request.WithoutCRDs {
		return nil
	}
	origins, err := s.origins(manifests)
	if err != nil {
		return nil
	}
	var list []string
	for _, manifest := range manifests {
		if run := origins[manifest.File].run; run != "" && !slices.Contains(list, run) {
			list = append(list, run)
		}
	}
	return list
}

func inFolder(there, here, folder string) string {
	if folder == "." {
		return here
	}
	return fmt.Sprintf(there, shell.Quote(folder))
}
