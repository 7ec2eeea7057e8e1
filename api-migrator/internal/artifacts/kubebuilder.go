// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// ProjectFile lists the new version in PROJECT.
func ProjectFile(l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	err := s.editProjectFile()
	return s.Result, err
}

// resource is an entry of PROJECT.
type resource struct {
	Group   string `yaml:"group"`
	Domain  string `yaml:"domain"`
	Kind    string `yaml:"kind"`
	Version string `yaml:"version"`
}

// editProjectFile lists the new version of each kind in PROJECT, after the entry of the old one or, if that is removed,
// in its place. The rest of the file keeps every byte.
func (s *documents) editProjectFile() error {
	name, content, err := project.ScaffoldFile(s.Project.Workspace, s.Dir(layout.OldPackage))
	if err != nil || content == nil || s.MovesOnlyImporters() {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return hint.Errorf("kubebuilder edit", "%s is not YAML: %v", name, err)
	}
	domain, err := project.Domain(s.Project.Workspace, s.Dir(layout.OldPackage))
	if err != nil {
		return err
	}
	entries := resourcesOf(&document)
	lines := strings.SplitAfter(string(content), "\n")
	for i, entry := range slices.Backward(entries) {
		var known resource
		if err := entry.Decode(&known); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if !slices.Contains(s.Request.Kinds, known.Kind) || known.Version != s.Old.Version {
			continue
		}
		if isVersion2(&document) && known.Group+"."+domain == s.Old.Group { // the domain is that of the file
			if known.Domain = domain; s.Group != layout.GroupLabel(s.Group, domain)+"."+domain {
				s.Note(fmt.Sprintf("%s:%d", name, entry.Line), "%s is not in the domain %s, and the entries of this file "+
					"have no other: list the new version once the file has version 3", s.Group, domain)
				continue
			}
		}
		if strings.Trim(known.Group+"."+known.Domain, ".") != s.Old.Group {
			continue
		}
		listed, err := entryOf(content, cmp.Or(s.Request.ToKind, known.Kind), s.Group, s.Version)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if listed != nil {
			continue // by hand
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
		block, ok := s.successorEntry(lines[entry.Line-1:max(end, entry.Line)], entry, known)
		if !ok {
			s.Block(fmt.Sprintf("%s:%d", name, entry.Line),
				"the entry of %s is written in another way than kubebuilder's: write each of its keys on a line of its own", known.Kind)
			return nil
		}
		if s.Request.Old == request.OldRemove {
			lines = slices.Replace(lines, entry.Line-1, end, block...)
			continue
		}
		if last := lines[end-1]; last != "" && !strings.HasSuffix(last, "\n") {
			lines[end-1] += "\n"
		}
		lines = slices.Insert(lines, end, block...)
	}
	s.Changes[name] = &changeset.Change{Content: []byte(strings.Join(lines, "")), Why: "lists the new version"}
	if s.Group != s.Old.Group && s.Old.Layout() == "api/VERSION" &&
		!strings.Contains(string(content), "\nmultigroup: true") {
		s.Note(name, "the project has one group, and gets another: run kubebuilder edit --multigroup=true; "+
			"kubebuilder then looks for %s in %s", s.Old.Group,
			path.Join(s.Dir(layout.OldPackage), "..", layout.GroupLabel(s.Old.Group, domain), s.Old.Version))
	}
	return nil
}

// successorEntry is the entry of the new version: its lines are the old one's with other values. It reports false for
// an entry that is not written line by line.
func (s *documents) successorEntry(old []string, entry *yaml.Node, known resource) ([]string, bool) {
	lines, controller := slices.Clone(old), -1
	if strings.TrimSpace(lines[0][:min(entry.Column-1, len(lines[0]))]) != "-" {
		return nil, false
	}
	values := s.successorValues(known)
	for i := len(entry.Content) - 2; i >= 0; i -= 2 { // backwards: what stands before on a line keeps its column
		key, value := entry.Content[i], entry.Content[i+1]
		if key.Value == "controller" && value.Value == "true" {
			controller = key.Line - entry.Line
		}
		want, ok := values[[2]string{key.Value, value.Value}]
		if !ok || want == value.Value {
			continue
		}
		if lines[value.Line-entry.Line], ok = WithScalar(lines[value.Line-entry.Line], value, want); !ok {
			return nil, false
		}
	}
	if controller < 0 || s.Request.Old == request.OldRemove {
		return lines, true
	}
	// The kind has a controller already.
	at := entry.Column - 1
	switch {
	case entry.Style&yaml.FlowStyle != 0 || controller == 0 && (len(lines) == 1 || len(lines[1]) < at):
		return nil, false
	case controller == 0:
		lines[1] = lines[0][:at] + lines[1][at:]
	}
	return slices.Delete(lines, controller, controller+1), true
}

// successorValues says what becomes of a key's value.
func (s *documents) successorValues(known resource) map[[2]string]string {
	values := map[[2]string]string{
		{"version", s.Old.Version}:                s.Version,
		{"path", s.ImportPath(layout.OldPackage)}: s.ImportPath(layout.NewPackage),
	}
	for _, one := range s.Successions {
		if one.Old.Kind != known.Kind {
			continue
		}
		group, domain := layout.GroupLabel(s.Group, known.Domain), known.Domain
		if group+"."+domain != s.Group {
			group, domain, _ = strings.Cut(s.Group, ".")
		}
		values[[2]string{"kind", one.Old.Kind}] = one.Successor.Kind
		values[[2]string{"plural", one.Old.Plural}] = one.Successor.Plural
		values[[2]string{"group", known.Group}] = group
		values[[2]string{"domain", known.Domain}] = domain
	}
	return values
}

// WithScalar gives a value in a line another text. Its quotes stay, and so does what stands behind it.
func WithScalar(line string, value *yaml.Node, text string) (string, bool) {
	at, quote := value.Column-1, ""
	switch {
	case value.Style&yaml.DoubleQuotedStyle != 0:
		quote = `"`
	case value.Style&yaml.SingleQuotedStyle != 0:
		quote = "'"
	}
	if at > len(line) {
		return "", false
	}
	rest, ok := strings.CutPrefix(line[at:], quote+value.Value+quote)
	return line[:at] + quote + text + quote + rest, ok
}

// isVersion2 reports whether PROJECT is of version 2, whose entries have no domain.
func isVersion2(document *yaml.Node) bool {
	var file struct {
		Version string `yaml:"version"`
	}
	return document.Decode(&file) == nil && file.Version == "2"
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
