// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/makefile"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// versionLists finds group and version in commands of generators: cache:v1, cache:v1,v2 and cache/v1, the latter also
// at the end of a package's path.
type versionLists struct {
	*documents
	old, new *regexp.Regexp
}

// listOf finds a version in a list. What follows must not belong to it: cache:v1.2 is the tag of an image.
func listOf(words []string, version string) *regexp.Regexp {
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	return regexp.MustCompile(`(?:^|[\s"'=/+,;])((` + strings.Join(words, "|") + `)(:(?:v\w+,)*|/)` +
		regexp.QuoteMeta(version) + `)(?:$|[^\w.-])`)
}

var (
	// outputOption is an option of a generator that says where it writes.
	outputOption = regexp.MustCompile(`(?:^|\s)--?(?:out|output|report|O)[\w-]*[=\s]\S*$`)
	onlySays     = regexp.MustCompile(`^[\s@-]*(?:#|echo\b)`)
	setsVariable = regexp.MustCompile(`^\s*(?:export\s+)?(\w+)\s*[:?+]?=`)
)

// noteVersionLists finds the versions that commands list for generators, and variables next to them that name the
// folder of the old version alone.
func (s *documents) noteVersionLists() {
	if s.InPlace() {
		return
	}
	lists := versionLists{s, listOf([]string{s.GroupWord(), s.FolderName(layout.OldPackage)}, s.Old.Version),
		listOf(s.newGroupWords(), s.Version)}
	names := append(s.generatorScripts(), updateScript)
	for _, module := range s.Project.Workspace.Modules {
		if files, err := s.makefilesIn(module.Dir); err == nil {
			names = append(names, files...)
		}
	}
	for _, name := range names {
		content, err := tree.ReadIfThere(s.Project.Root, name)
		if err != nil || !codeGenerators.Match(content) {
			continue
		}
		values := makefile.Assignments(makefile.JoinLines(string(content)))
		for _, statement := range makefile.Statements(string(content)) {
			lists.note(name, statement, codeGenerators.MatchString(makefile.Expand(statement.Text(), values)))
		}
	}
}

// newGroupWords are what commands may call the new group: by its folder, or by its first label.
func (s *documents) newGroupWords() []string {
	words := []string{s.FolderName(layout.NewPackage)}
	if s.Group == s.Old.Group {
		return append(words, s.GroupWord())
	}
	return append(words, layout.GroupLabel(s.Group, ""))
}

// note reports the lines of a statement that list the old version, unless it lists the new one too.
func (s versionLists) note(file string, statement makefile.Statement, generates bool) {
	if s.new.MatchString(statement.Text()) || onlySays.MatchString(statement.Lines[0]) {
		return
	}
	variable := setsVariable.FindStringSubmatch(statement.Lines[0])
	for i, line := range statement.Lines {
		word, separator, ok := s.find(line)
		if !ok {
			continue
		}
		where := fmt.Sprintf("%s:%d", file, statement.First+i)
		known, added := s.names(line, word, separator)
		switch {
		case generates || separator != "/" || strings.Contains(line, "--input"):
			s.Note(where, "generates code for %s: add %s before it runs again", known, added)
		case variable != nil:
			s.Note(where, "%s is made of %s alone: add %s, unless it is about that version", variable[1], known, added)
		}
	}
}

// find returns the name of the group and what stands between it and the version; arguments that say where a generator
// writes do not count.
func (s versionLists) find(line string) (word, separator string, ok bool) {
	for _, at := range s.old.FindAllStringSubmatchIndex(line, -1) {
		if !outputOption.MatchString(line[:at[2]]) {
			return line[at[4]:at[5]], line[at[6]:at[7]], true
		}
	}
	return "", "", false
}

// names are what a line calls the old version, and what it would call the new one.
func (s versionLists) names(line, word, separator string) (known, added string) {
	known, added = s.Dir(layout.OldPackage), s.Dir(layout.NewPackage)
	if separator != "/" || !strings.Contains(line, known) {
		next := s.FolderName(layout.NewPackage)
		if word != s.FolderName(layout.OldPackage) {
			next = s.newGroupWords()[1]
		}
		known, added = word+separator+s.Old.Version, next+separator[:1]+s.Version
	}
	if s.Group != s.Old.Group {
		added += " (" + s.Group + "/" + s.Version + ")"
	}
	return known, added
}
