// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

var (
	action      = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	nothingElse = regexp.MustCompile(`^[\s\x{E000}]*$`)
)

// hole stands for a character of an action. It is of Unicode's private use, so no manifest has it, and YAML allows it.
const hole = '\uE000'

// helmPlugin is how PROJECT says that kubebuilder writes a chart.
var helmPlugin = regexp.MustCompile(`(?m)^\s+helm\.kubebuilder\.io/(v\d+(?:-\w+)?)\s*:`)

// chartAgain says how a template is written again if kubebuilder's helm plugin has written it; empty for others.
func (s *documents) chartAgain(file string) string {
	if !strings.Contains("/"+file, "/chart/templates/") {
		return ""
	}
	_, content, err := project.ScaffoldFile(s.Project.Workspace, s.Dir(layout.OldPackage))
	plugin := helmPlugin.FindSubmatch(content)
	if err != nil || plugin == nil {
		return ""
	}
	before := ""
	if string(plugin[1]) != "v1-alpha" { // later ones read what that target writes
		before = "make build-installer && "
	}
	return fmt.Sprintf(", or run `%skubebuilder edit --plugins=helm/%s` after apply, which writes it again", before, plugin[1])
}

// IsComputed reports whether an action is in a value.
func IsComputed(value string) bool { return strings.ContainsRune(value, hole) }

// IsTemplate reports whether an action begins or ends in a line.
func IsTemplate(line string) bool {
	return strings.Contains(line, "{{") || strings.Contains(line, "}}")
}

// WithoutActions is the text of a template that YAML can read: what stands in a line of its own goes, and what stands
// within a value becomes holes, one for each character, so that every other value keeps its line and column.
func WithoutActions(text string) string {
	if !strings.Contains(text, "{{") {
		return text
	}
	text = action.ReplaceAllStringFunc(text, func(found string) string {
		return strings.Map(func(r rune) rune {
			if r == '\n' {
				return r
			}
			return hole
		}, found)
	})
	var out strings.Builder
	for line := range strings.Lines(text) {
		if nothingElse.MatchString(line) {
			line = "\n"
		}
		out.WriteString(line)
	}
	return out.String()
}

// Child is the value of a key; nil without it.
func Child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// Values are the scalars of a list.
func Values(list *yaml.Node) []string {
	if list == nil {
		return nil
	}
	var found []string
	for _, one := range list.Content {
		found = append(found, one.Value)
	}
	return found
}
