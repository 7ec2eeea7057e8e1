// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/artifacts"
)

// manifest is a file in YAML or JSON, of which values are edited. All other bytes stay.
type manifest struct {
	*hooks
	name   string
	source string
	isJSON bool  // and so no template, whatever its braces look like
	starts []int // the offset at which each line begins, and the length of the source
	edits  []edit
}

// edit replaces the bytes from one offset to another.
type edit struct {
	from, to int
	text     string
}

func (s *hooks) newManifest(name, text string) *manifest {
	m := &manifest{hooks: s, name: name, source: text, isJSON: json.Valid([]byte(text))}
	at := 0
	for line := range strings.Lines(text) {
		m.starts = append(m.starts, at)
		at += len(line)
	}
	m.starts = append(m.starts, at)
	return m
}

// text is the file with its edits.
func (m *manifest) text() string {
	slices.SortStableFunc(m.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	at := 0
	for _, one := range m.edits {
		out.WriteString(m.source[at:one.from] + one.text)
		at = one.to
	}
	return out.String() + m.source[at:]
}

// place is where a person finds a node.
func (m *manifest) place(node *yaml.Node) string { return fmt.Sprintf("%s:%d", m.name, node.Line) }

// offset is where a node begins. YAML counts columns in characters.
func (m *manifest) offset(node *yaml.Node) int {
	at := m.starts[min(node.Line, len(m.starts))-1]
	for range node.Column - 1 {
		_, size := utf8.DecodeRuneInString(m.source[at:])
		at += size
	}
	return at
}

func quoteOf(node *yaml.Node) string {
	switch {
	case node.Style&yaml.DoubleQuotedStyle != 0:
		return `"`
	case node.Style&yaml.SingleQuotedStyle != 0:
		return "'"
	}
	return ""
}

// span is where a scalar stands; false if it is not written as it is read, such as one with escapes.
func (m *manifest) span(node *yaml.Node) (from, to int, ok bool) {
	from = m.offset(node)
	written := quoteOf(node) + node.Value + quoteOf(node)
	return from, from + len(written), node.Kind == yaml.ScalarNode && strings.HasPrefix(m.source[from:], written)
}

// set gives a scalar another value; false if it cannot.
func (m *manifest) set(node *yaml.Node, value string) bool {
	from, to, ok := m.span(node)
	if ok {
		m.edits = append(m.edits, edit{from, to, quoteOf(node) + value + quoteOf(node)})
	}
	return ok
}

// setOnly makes a list one of a single value; false if it cannot.
func (m *manifest) setOnly(list *yaml.Node, value string) bool {
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return false
	}
	first, rest := list.Content[0], list.Content[1:]
	last := list.Content[len(rest)]
	if !m.isJSON && artifacts.IsTemplate(m.source[m.starts[first.Line-1]:m.starts[last.Line]]) {
		return false // an action adds values, or says under which condition one is there
	}
	_, end, isFirst := m.span(first)
	_, over, isLast := m.span(last)
	if !isFirst || !isLast {
		return false
	}
	if list.Style&yaml.FlowStyle != 0 {
		if strings.Contains(m.source[end:over], "#") {
			return false // a comment, which may be about one of them
		}
		m.edits = append(m.edits, edit{end, over, ""})
		return m.set(first, value)
	}
	for _, one := range rest {
		line := m.source[m.starts[one.Line-1]:m.starts[one.Line]]
		if one.Line == first.Line || !strings.HasPrefix(strings.TrimSpace(line), "-") {
			return false
		}
		m.edits = append(m.edits, edit{m.starts[one.Line-1], m.starts[one.Line], ""})
	}
	return m.set(first, value)
}

// insert adds a field to a mapping, above its second one: the first may stand behind the dash of a list. It is false if
// it cannot.
func (m *manifest) insert(node *yaml.Node, key, value string) bool {
	if len(node.Content) < 4 {
		return false
	}
	first, second := node.Content[0], node.Content[2]
	if node.Style&yaml.FlowStyle == 0 {
		at := m.starts[second.Line-1]
		m.edits = append(m.edits, edit{at, at, strings.Repeat(" ", second.Column-1) + key + ": " + value + "\n"})
		return true
	}
	at, quote := m.offset(second), quoteOf(first)
	gap := m.source[len(strings.TrimRight(m.source[:at], " \t\r\n")):at]
	_, end, ok := m.span(first)
	begin := m.offset(node.Content[1])
	if !ok || begin < end || strings.TrimSpace(m.source[end:begin]) != ":" || !strings.HasSuffix(m.source[:at-len(gap)], ",") {
		return false
	}
	m.edits = append(m.edits, edit{at, at, quote + key + quote + m.source[end:begin] + quote + value + quote + "," + gap})
	return true
}
