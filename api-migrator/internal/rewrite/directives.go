// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"path"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

const generateMark = "//go:generate "

// directives makes the go:generate lines of code that is copied write for the package that it goes to: under that
// package's name, and not over the files of the old version.
func (s *creation) directives(from *project.File, body string, to layout.Home) string {
	lines := strings.SplitAfter(body, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, generateMark) {
			continue
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		for j, word := range words {
			flag, value, isOne := strings.Cut(word, "=")
			switch {
			case strings.HasPrefix(word, "-") && isOne:
				words[j] = flag + "=" + s.argument(from, flag, value, to)
			case !strings.HasPrefix(word, "-") && j > 0:
				words[j] = s.argument(from, words[j-1], word, to)
			}
		}
		lines[i] = strings.Join(words, " ") + line[len(strings.TrimSuffix(line, "\n")):]
	}
	return strings.Join(lines, "")
}

// argument is the value of a generator's flag for another package. before is the word before it, if it is no flag's.
func (s *creation) argument(from *project.File, before, value string, to layout.Home) string {
	flag := ""
	if strings.HasPrefix(before, "-") {
		flag = strings.TrimLeft(before, "-")
	}
	switch {
	case value == s.Old.Package.Path:
		return s.ImportPath(to)
	case slices.Contains([]string{"package", "pkg", "p", "outpkg", "self_package"}, flag):
		if value == s.Old.Package.Name {
			return path.Base(s.Dir(to))
		}
	case slices.Contains([]string{"destination", "o", "output", "out", "outdir", "output-dir"}, flag):
		elements := strings.Split(value, "/")
		for i, element := range elements {
			if element == s.Old.Version {
				elements[i] = path.Base(s.Dir(to))
			}
		}
		if moved := strings.Join(elements, "/"); moved != value {
			return moved
		}
		if strings.HasPrefix(value, "../") {
			s.Note(from.Path, "a go:generate line that both versions have now writes %s: give each a file of its own", value)
		}
	}
	return value
}
