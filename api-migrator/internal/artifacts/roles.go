// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/git"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// Roles grants the new resource what manifests grant on the old one, where a kind gets a CRD of its own. The rules for
// the old resource stay: while objects are copied, the operator reads both.
func Roles(ctx context.Context, l *layout.Layout, before changeset.Set) (changeset.Result, error) {
	s := begin(l, before)
	if len(s.Successions) == 0 {
		return s.Result, nil
	}
	folder := changeset.Folder{Folder: tree.Folder(s.Project.Root), Changes: s.All(),
		Tracked: git.Tracked(ctx, s.Project.Root)}
	paths, err := folder.Paths()
	if err != nil {
		return s.Result, err
	}
	for _, name := range paths {
		if !slices.Contains([]string{".yaml", ".yml", ".json", ".tpl"}, path.Ext(name)) {
			continue
		}
		text, isText, err := folder.Read(name)
		if err != nil {
			return s.Result, err
		}
		if !isText || strings.HasPrefix(text, project.StageMark) || !strings.Contains(text, "apiGroups") ||
			!strings.Contains(text, s.Old.Group) {
			continue
		}
		edited, report := grantInRoles(name, text, s.Successions)
		switch s.Report.Add(report); {
		case edited == text:
		case slices.Contains(s.Request.Leave, name):
			s.Warn(name, "left as it is, as you have asked (--leave): repeat its rules for the old resource for the new one by hand")
		default:
			s.Changes[name] = &changeset.Change{Content: []byte(edited), Why: "grants access to the new resource too"}
		}
	}
	return s.Result, nil
}

// roleFile is a manifest with rules, of which lines are inserted.
type roleFile struct {
	finding.Report
	name        string
	lines       []string
	below       map[int]string // lines that are inserted, by the number of the line before from 1
	successions []layout.Succession
}

// grantInRoles is the text of a manifest with a rule for the new resource below each rule for the old one. Rules that
// cannot be repeated are findings.
func grantInRoles(name, text string, successions []layout.Succession) (string, finding.Report) {
	f := &roleFile{name: name, lines: strings.SplitAfter(text, "\n"), below: map[int]string{}, successions: successions}
	decoder := yaml.NewDecoder(strings.NewReader(WithoutActions(text)))
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			if !errors.Is(err, io.EOF) {
				f.noteUnread(text, err)
			}
			break
		}
		f.walk(&document)
	}
	var out strings.Builder
	for i, line := range f.lines {
		out.WriteString(line)
		if inserted := f.below[i+1]; inserted != "" {
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n")
			}
			out.WriteString(inserted)
		}
	}
	return out.String(), f.Report
}

// noteUnread is about a file that is not YAML, even without its template actions.
func (f *roleFile) noteUnread(text string, reason error) {
	for _, one := range f.successions {
		if strings.Contains(text, one.Old.Plural) {
			f.Note(f.name, "cannot be read (%v): if it has rules of RBAC for %s, add rules for %s", reason, nameOf(one.Old),
				nameOf(one.Successor))
		}
	}
}

// nameOf is the name of a CRD.
func nameOf(names crd.Names) string { return names.Plural + "." + names.Group }

// walk looks for the rules of a Role, a ClusterRole or a ClusterServiceVersion.
func (f *roleFile) walk(node *yaml.Node) {
	if node.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(node.Content); i += 2 {
			if rules := node.Content[i+1]; node.Content[i].Value == "rules" && rules.Kind == yaml.SequenceNode {
				f.rules(rules)
			}
		}
	}
	for _, one := range node.Content {
		f.walk(one)
	}
}

func (f *roleFile) rules(rules *yaml.Node) {
	for _, rule := range rules.Content {
		if Child(rule, "verbs") == nil || Child(rule, "apiGroups") == nil {
			continue // of a webhook, or for URLs
		}
		for _, one := range f.successions {
			f.repeat(rules, rule, one)
		}
	}
}

// repeat adds the same rule for the new resource, if a rule is about the old one and no other grants it.
func (f *roleFile) repeat(rules, rule *yaml.Node, one layout.Succession) {
	place := fmt.Sprintf("%s:%d", f.name, rule.Line)
	if !slices.Contains(Values(Child(rule, "apiGroups")), one.Old.Group) {
		return
	}
	var resources []string
	for _, resource := range Values(Child(rule, "resources")) {
		switch name, below, isSub := strings.Cut(resource, "/"); {
		case name == "*" && one.Old.Group != one.Successor.Group || IsComputed(resource):
			f.Warn(place, "may grant access to %s by %s: add a rule for %s", nameOf(one.Old), shown(resource), nameOf(one.Successor))
			return
		case name == one.Old.Plural && isSub:
			resources = append(resources, one.Successor.Plural+"/"+below)
		case name == one.Old.Plural:
			resources = append(resources, one.Successor.Plural)
		}
	}
	if len(resources) == 0 || slices.ContainsFunc(rules.Content, func(other *yaml.Node) bool {
		return grants(other, "apiGroups", []string{one.Successor.Group}) && grants(other, "resources", resources) &&
			grants(other, "verbs", Values(Child(rule, "verbs"))) && (Child(other, "resourceNames") == nil ||
			Child(rule, "resourceNames") != nil && grants(other, "resourceNames", Values(Child(rule, "resourceNames"))))
	}) {
		return
	}
	last := lastLine(rule)
	if rules.Style&yaml.FlowStyle != 0 || slices.ContainsFunc(f.lines[rule.Line-1:last], IsTemplate) ||
		!endsIn(rule, f.lines) {
		f.Warn(place, "grants access to %s, in a way that is not edited: add the same rule for %s", nameOf(one.Old),
			nameOf(one.Successor))
		return
	}
	text, err := f.written(rules, rule, one.Successor.Group, resources)
	if err != nil {
		f.Warn(place, "grants access to %s, and cannot be repeated (%v): add the same rule for %s", nameOf(one.Old), err,
			nameOf(one.Successor))
		return
	}
	f.below[last] += text
}

// shown is a value in which an action of a template stands.
func shown(value string) string {
	if IsComputed(value) {
		return "a template action"
	}
	return value
}

// written is a rule for another resource, in the style of the old one.
func (f *roleFile) written(rules, rule *yaml.Node, group string, resources []string) (string, error) {
	copied := &yaml.Node{Kind: yaml.MappingNode, Style: rule.Style}
	isCompact := true
	for i := 0; i+1 < len(rule.Content); i += 2 {
		key, value := rule.Content[i], rule.Content[i+1]
		if value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0 {
			isCompact = isCompact && value.Column == key.Column
		}
		all := Values(value)
		switch key.Value {
		case "apiGroups":
			all = []string{group}
		case "resources":
			all = resources
		}
		list := &yaml.Node{Kind: yaml.SequenceNode, Style: value.Style}
		for _, one := range all {
			item := &yaml.Node{Kind: yaml.ScalarNode, Value: one}
			if len(value.Content) > 0 {
				item.Style = value.Content[0].Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle)
			}
			list.Content = append(list.Content, item)
		}
		copied.Content = append(copied.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key.Value}, list)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if isCompact {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{copied}}); err != nil {
		return "", err
	}
	var text strings.Builder
	for line := range strings.Lines(out.String()) {
		text.WriteString(strings.Repeat(" ", rules.Column-1) + line)
	}
	return text.String(), nil
}

// grants reports whether a list of a rule has all values.
func grants(rule *yaml.Node, key string, values []string) bool {
	has := Values(Child(rule, key))
	return slices.Contains(has, "*") || !slices.ContainsFunc(values, func(one string) bool {
		return !slices.Contains(has, one)
	})
}

// lastLine is the line of the last scalar in a node.
func lastLine(node *yaml.Node) int {
	last := node.Line
	for _, one := range node.Content {
		last = max(last, lastLine(one))
	}
	return last
}

// endsIn reports whether no list in brackets ends below the last scalar of a rule.
func endsIn(rule *yaml.Node, lines []string) bool {
	text := strings.Join(lines[rule.Line-1:lastLine(rule)], "")
	return strings.Count(text, "[") == strings.Count(text, "]") && strings.Count(text, "{") == strings.Count(text, "}")
}
