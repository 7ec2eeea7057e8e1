// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/makefile"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// eachMakefile calls do for the Makefiles next to a go.mod.
func (s *documents) eachMakefile(do func(module project.Module, text string)) {
	for _, module := range s.Project.Workspace.Modules {
		if text, err := s.makefileIn(module.Dir); err == nil && text != "" {
			do(module, text)
		}
	}
}

// included finds the files that a Makefile includes, as patterns.
var included = regexp.MustCompile(`(?m)^[ ]*(?:-|s)?include[ \t]+(.+)$`)

// makefilesIn are the Makefile of a folder and the files of the project that it includes, by their paths. Those whose names
// make computes are not known.
func (s *documents) makefilesIn(folder string) ([]string, error) {
	names := []string{path.Join(folder, "Makefile")}
	for i := 0; i < len(names); i++ {
		content, err := tree.ReadIfThere(s.Project.Root, names[i])
		if err != nil {
			return nil, err
		}
		for _, found := range included.FindAllStringSubmatch(makefile.JoinLines(string(content)), -1) {
			for pattern := range strings.FieldsSeq(found[1]) {
				files, err := fs.Glob(os.DirFS(s.Project.Root), path.Join(folder, pattern))
				if err != nil {
					continue // it is no pattern
				}
				for _, file := range files {
					if !slices.Contains(names, file) {
						names = append(names, file)
					}
				}
			}
		}
	}
	return names, nil
}

// makefileIn is the text of the Makefile of a folder, with what it includes behind it; empty without one.
func (s *documents) makefileIn(folder string) (string, error) {
	names, err := s.makefilesIn(folder)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range names {
		content, err := tree.ReadIfThere(s.Project.Root, name)
		if err != nil {
			return "", err
		}
		text.Write(content)
		if len(content) > 0 && content[len(content)-1] != '\n' {
			text.WriteByte('\n')
		}
	}
	return text.String(), nil
}

func makeCommand(target, folder string) string {
	return inFolder("make -C %s "+target, "make "+target, folder)
}

var (
	// codegenTarget is what projects call targets that generate code, such as update-codegen.
	codegenTarget = regexp.MustCompile(`^(?:\w+-)?codegen$`)
	otherCodegen  = regexp.MustCompile(`^(?:verify|check|test|install|clean)-`)
	// crdGenerators finds commands that write CRDs after Go types.
	crdGenerators = regexp.MustCompile(`(?i)\bcontroller[-_]gen\b.*\bcrd\b|\bgo run \S*crd|\bupdate-crds?\.sh\b`)
)

// codegenTargets are the Makefiles' targets that are called so, whatever they run.
func (s *documents) codegenTargets() (list []string) {
	s.eachMakefile(func(module project.Module, text string) {
		for _, target := range slices.Sorted(maps.Keys(makefile.Rules(text))) {
			if codegenTarget.MatchString(target) && !otherCodegen.MatchString(target) {
				list = append(list, makeCommand(target, module.Dir))
			}
		}
	})
	return list
}

// makersOfCRDs are the Makefiles' targets that write CRDs after Go types.
func (s *documents) makersOfCRDs() []string {
	list := s.makeTargets("manifests")
	s.eachMakefile(func(module project.Module, text string) {
		makefile.EachCommand(text, func(target, line string) {
			if command := makeCommand(target, module.Dir); crdGenerators.MatchString(line) && !slices.Contains(list, command) {
				list = append(list, command)
			}
		})
	})
	return list
}

// underCodegen puts the target codegen of a Makefile in the place of the commands that it runs, if generators are among
// them.
func (s *documents) underCodegen(list, generators []string) []string {
	s.eachMakefile(func(module project.Module, text string) {
		const umbrella = "codegen"
		below := targetsBelow(makefile.Rules(text), umbrella)
		runs := func(command string) bool {
			script := path.Base(strings.TrimSuffix(command, ")"))
			for target, rule := range below {
				if command == makeCommand(target, module.Dir) || path.Ext(script) == ".sh" &&
					slices.ContainsFunc(rule.Commands, func(line string) bool { return strings.Contains(line, script) }) {
					return true
				}
			}
			return false
		}
		if !slices.ContainsFunc(generators, runs) {
			return
		}
		at := slices.IndexFunc(list, runs)
		list = slices.DeleteFunc(list, runs)
		list = slices.Insert(list, at, makeCommand(umbrella, module.Dir))
	})
	return list
}

// targetsBelow are a target and those that it needs, with their rules.
func targetsBelow(rules map[string]makefile.Rule, target string) map[string]makefile.Rule {
	below := map[string]makefile.Rule{}
	for next := []string{target}; len(next) > 0; next = next[1:] {
		rule, ok := rules[next[0]]
		if _, known := below[next[0]]; ok && !known {
			below[next[0]] = rule
			next = append(next, rule.Needs...)
		}
	}
	return below
}
