// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

// imports gives packages the names by which one file calls them.
type imports struct {
	module string
	taken  map[string]bool
	names  map[string]string // by path
}

func newImports(module string, within *types.Package) *imports {
	i := &imports{module: module, taken: map[string]bool{}, names: map[string]string{}}
	variables := []string{"in", "out", "err", "hub", "read", "back"}
	for _, name := range append(within.Scope().Names(), variables...) {
		i.taken[name] = true
	}
	return i
}

func (i *imports) name(importPath, called string) string {
	importPath = project.Unvendored(importPath)
	if name := i.names[importPath]; name != "" {
		return name
	}
	name := called
	if importPath == project.MetaPackage {
		name = "metav1"
	}
	for n := 1; i.taken[name]; n++ {
		name = strings.NewReplacer("-", "", ".", "").Replace(path.Base(path.Dir(importPath))) + called
		if n > 1 {
			name += fmt.Sprint(n)
		}
	}
	i.names[importPath], i.taken[name] = name, true
	return name
}

// block is the declaration: the standard library, others, and the project's own packages.
func (i *imports) block() string {
	var groups [3]string
	for _, importPath := range slices.Sorted(maps.Keys(i.names)) {
		group, name := 0, i.names[importPath]
		if first, _, _ := strings.Cut(importPath, "/"); strings.Contains(first, ".") {
			group = 1
		}
		if importPath == i.module || strings.HasPrefix(importPath, i.module+"/") {
			group = 2
		}
		line := fmt.Sprintf("\t%q\n", importPath)
		if name != path.Base(importPath) || isVersion(name) {
			line = fmt.Sprintf("\t%s %q\n", name, importPath)
		}
		groups[group] += line
	}
	return strings.Join(slices.DeleteFunc(groups[:], func(group string) bool { return group == "" }), "\n")
}

// isVersion: packages of API versions are imported under a name even if it is their own.
func isVersion(name string) bool {
	return len(name) > 1 && name[0] == 'v' && name[1] >= '0' && name[1] <= '9'
}

// source puts a file together.
func source(header, name string, imports *imports, body string) ([]byte, error) {
	text := header + "package " + name + "\n\n"
	if imports != nil {
		text += "import (\n" + imports.block() + ")\n\n"
	}
	formatted, err := format.Source([]byte(text + strings.TrimLeft(body, "\n")))
	if err != nil {
		return nil, fmt.Errorf("format generated code: %w", err)
	}
	return formatted, nil
}

// header is what stands above the package clause of a file, but for the comment of its package and build constraints:
// its licence.
func header(file *project.File) (string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "", file.Source, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return "", fmt.Errorf("read licence header: %w", err)
	}
	var groups []string
	for _, group := range parsed.Comments {
		if group.Pos() > parsed.Package || group == parsed.Doc {
			continue
		}
		var lines []string
		for _, comment := range group.List {
			if !strings.HasPrefix(comment.Text, "//go:build") && !strings.HasPrefix(comment.Text, "// +") {
				lines = append(lines, comment.Text)
			}
		}
		if len(lines) > 0 {
			groups = append(groups, strings.Join(lines, "\n")+"\n\n")
		}
	}
	return strings.Join(groups, ""), nil
}
