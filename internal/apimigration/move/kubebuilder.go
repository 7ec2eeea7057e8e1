// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
)

// projectFile is where kubebuilder remembers what it has scaffolded.
const projectFile = "PROJECT"

// resource is an entry of PROJECT.
type resource struct {
	Group   string `yaml:"group"`
	Domain  string `yaml:"domain"`
	Kind    string `yaml:"kind"`
	Version string `yaml:"version"`
}

// editProjectFile lists the new version of each kind in PROJECT, after the entry of the old one or, if that is removed,
// in its place. The rest of the file keeps every byte.
func (s *surgery) editProjectFile() error {
	content, err := readIfThere(s.project.Root, projectFile)
	if err != nil || content == nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return project.Problem("kubebuilder edit", "PROJECT is no YAML: %v", err)
	}
	domain, err := projectDomain(s.project.Root)
	if err != nil {
		return err
	}
	entries := resourcesOf(&document)
	lines := strings.SplitAfter(string(content), "\n")
	for i, entry := range slices.Backward(entries) {
		var known resource
		if err := entry.Decode(&known); err != nil {
			return fmt.Errorf("read PROJECT: %w", err)
		}
		if !slices.Contains(s.request.Kinds, known.Kind) || known.Version != s.old.Version || strings.Trim(known.Group+"."+known.Domain, ".") != s.old.Group {
			continue
		}
		end := len(lines)
		if i+1 < len(entries) {
			end = entries[i+1].Line - 1
		} else {
			for n := entry.Line; n < len(lines); n++ { // the next key of the document, or its end
				if line := lines[n]; line != "" && line[0] != ' ' && line[0] != '-' {
					end = n
					break
				}
			}
		}
		block := strings.Join(lines[entry.Line-1:end], "")
		block = s.asSuccessor(block, known)
		block = strings.ReplaceAll(block, "version: "+s.old.Version+"\n", "version: "+s.version+"\n")
		block = strings.ReplaceAll(block, s.importPath(homeOld)+"\n", s.importPath(homeNew)+"\n")
		if s.request.Old == OldRemove {
			lines = slices.Replace(lines, entry.Line-1, end, block)
			continue
		}
		block = strings.ReplaceAll(block, "  controller: true\n", "") // the kind has one already
		lines = slices.Insert(lines, end, block)
	}
	s.files[projectFile] = &change{content: []byte(strings.Join(lines, "")), why: "lists the new version"}
	if s.group != s.old.Group && s.old.Layout() == "api/VERSION" && !strings.Contains(string(content), "\nmultigroup: true") {
		s.finding(projectFile, "the project has one group, and gets another: run kubebuilder edit --multigroup=true; kubebuilder then looks for %s in %s", s.old.Group, path.Join(s.dirs[homeOld], "..", groupLabel(s.old.Group, domain), s.old.Version))
	}
	return nil
}

// asSuccessor gives the entry of a kind its new group and name.
func (s *surgery) asSuccessor(block string, known resource) string {
	for _, one := range s.successors {
		if one.old.Kind != known.Kind {
			continue
		}
		group, domain := groupLabel(s.group, known.Domain), known.Domain
		if group+"."+domain != s.group {
			group, domain, _ = strings.Cut(s.group, ".")
		}
		for key, values := range map[string][2]string{
			"kind": {one.old.Kind, one.successor.Kind}, "plural": {one.old.Plural, one.successor.Plural}, "group": {known.Group, group}, "domain": {known.Domain, domain},
		} {
			block = strings.ReplaceAll(block, " "+key+": "+values[0]+"\n", " "+key+": "+values[1]+"\n")
		}
	}
	return block
}

// projectDomain is the domain that PROJECT says; empty without one.
func projectDomain(root string) (string, error) {
	content, err := readIfThere(root, projectFile)
	if err != nil {
		return "", err
	}
	var said struct {
		Domain string `yaml:"domain"`
	}
	if err := yaml.Unmarshal(content, &said); err != nil {
		return "", project.Problem("kubebuilder edit", "PROJECT is no YAML: %v", err)
	}
	return said.Domain, nil
}

// resourcesOf finds the list of resources in the document.
func resourcesOf(document *yaml.Node) []*yaml.Node {
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil
	}
	pairs := document.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i].Value == "resources" {
			return pairs[i+1].Content
		}
	}
	return nil
}
