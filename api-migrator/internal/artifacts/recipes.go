// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"path"
	"regexp"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/makefile"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
	"github.com/kube-migrator/kube-migrator/internal/shell"
)

// recipe is a line of a Makefile or of a script that writes manifests from something else.
type recipe struct {
	run  string // the command that runs it
	tool string // the program that writes
	to   string // the file or folder that it writes
	// names is a pattern for the files in the folder; everything means folders below it too. Empty: to is a file.
	names string
}

const everything = "*"

func (r recipe) writes(file string) bool {
	if r.names == everything {
		return file == r.to || strings.HasPrefix(file, r.to+"/")
	}
	matched, err := path.Match(r.names, path.Base(file))
	return file == r.to || err == nil && matched && path.Dir(file) == r.to
}

// recipes finds them in the Makefiles next to a go.mod, and in shell scripts. What a variable holds that is set
// elsewhere, or that another program computes, is not known, so a line that names its output that way is not found.
func (s *documents) recipes() ([]recipe, error) {
	var found []recipe
	folders := []string{"."}
	for _, module := range s.Project.Workspace.Modules {
		if module.Dir != "." {
			folders = append(folders, module.Dir)
		}
	}
	for _, folder := range folders {
		text, err := s.makefileIn(folder)
		if err != nil {
			return nil, err
		}
		found = append(found, makeRecipes(folder, text)...)
	}
	paths, err := tree.Folder(s.Project.Root).Paths()
	if err != nil {
		return nil, err
	}
	for _, name := range paths {
		if path.Ext(name) != ".sh" {
			continue
		}
		content, err := tree.ReadIfThere(s.Project.Root, name)
		if err != nil {
			return nil, err
		}
		text := makefile.JoinLines(string(content))
		values := makefile.Assignments(text)
		for line := range strings.Lines(text) {
			found = append(found, recipesIn(makefile.Expand(line, values), ".", "./"+shell.Quote(name))...)
		}
	}
	return found, nil
}

// makeRecipes are those of a Makefile in a folder.
func makeRecipes(folder, text string) []recipe {
	var found []recipe
	makefile.EachCommand(text, func(target, line string) {
		found = append(found, recipesIn(line, folder, inFolder("make -C %s "+target, "make "+target, folder))...)
	})
	return found
}

// writers are the programs that write manifests. The group "to" of a pattern is what they write, and "names" what of a
// folder. A program without the group writes to its default.
var writers = []struct {
	tool, to, names string
	pattern         *regexp.Regexp
}{
	{"helmify", "chart", everything, regexp.MustCompile(`(?i)\bhelmify[)}]?(?:\s+-[\w=-]+)*(?:\s+(?P<to>[\w./-]+))?\s*$`)},
	{"jsonnet", "", everything, regexp.MustCompile(`\bjsonnet\b.*\s(?:-m|--multi)[ =]*(?P<to>[\w./-]+)`)},
	{"jsonnet", "", "", regexp.MustCompile(`\bjsonnet\b.*\s(?:-o|--output-file)[ =]*(?P<to>[\w./-]+)`)},
	{"kustomize", "", everything,
		regexp.MustCompile(`(?i)\bkustomize[)}]?\s+build\b.*\s(?:-o|--output)[ =]*(?P<to>[\w./-]+)`)},
	{"operator-sdk", "bundle", everything,
		regexp.MustCompile(`\bgenerate\s+bundle\b(?:.*--output-dir[ =]*(?P<to>[\w./-]+))?`)},
	{"cp", "", "", regexp.MustCompile(`\bcp\s+(?:-\w+\s+)*(?:\S*/)?(?P<names>[^\s/]+\.ya?ml)\s+(?P<to>[\w./-]+)`)},
	{"cp", "", everything, regexp.MustCompile(`\bcp\s+(?:-\w+\s+)*\S*\bcrds?\b[^\s.]*\s+(?P<to>[\w./-]+)`)},
	{"", "", "", regexp.MustCompile(`(?:^|[^0-9&>])>>?\s*(?P<to>[\w./-]+)`)},
	{"", "", "", regexp.MustCompile(`\btee\s+(?:-a\s+)?(?P<to>[\w./-]+)`)},
}

var (
	knownTool = regexp.MustCompile(`(?i)\b(kustomize|helmify|helm|jsonnet|controller[-_]gen|ytt|cue|yq)\b`)
	// afterTypes is the program that writes manifests after Go types, so that they count as a source.
	afterTypes    = regexp.MustCompile(`^controller[-_]gen$`)
	changesFolder = regexp.MustCompile(`(?:^|[\s;&(@])cd\s`)
)

// recipesIn are those of one line. A line that changes the folder first may write anywhere.
func recipesIn(line, folder, run string) []recipe {
	line = strings.NewReplacer(`"`, "", "'", "").Replace(strings.TrimSpace(line))
	if strings.HasPrefix(line, "#") || changesFolder.MatchString(line) {
		return nil
	}
	var found []recipe
	for _, writer := range writers {
		match := writer.pattern.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		one := recipe{run: run, tool: writer.tool, to: writer.to, names: writer.names}
		for i, group := range writer.pattern.SubexpNames() {
			switch {
			case match[i] == "":
			case group == "to":
				one.to = match[i]
			case group == "names":
				one.names = match[i]
			}
		}
		if one.tool == "" {
			one.tool = strings.ToLower(knownTool.FindString(line))
		}
		one.to = path.Join(folder, one.to)
		if one.to != "." && !afterTypes.MatchString(one.tool) {
			found = append(found, one)
		}
	}
	return found
}
