// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	apiyaml "sigs.k8s.io/yaml"
)

// A manifest is edited as text: lines are cut out, moved and indented again, and the YAML parser only says where things
// are. Writing the parser's tree back would lose blank lines and join folded ones, so that one changed field would show
// as hundreds of lines.

// document is one YAML document, as lines without their ends, and where its nodes are.
type document struct {
	lines []string
	// top has the comments that belong to the whole; root is the object.
	top, root *yaml.Node
}

// separator is a line between documents.
var separator = regexp.MustCompile(`^---(\s.*)?$`)

// split splits a file into texts that joined again are the file. The texts between documents are the lines "---".
func split(file string) []string {
	var parts []string
	var part strings.Builder
	flush := func() {
		if part.Len() > 0 {
			parts = append(parts, part.String())
		}
		part.Reset()
	}
	for line := range strings.Lines(file) {
		if separator.MatchString(strings.TrimRight(line, "\r\n")) {
			flush()
			parts = append(parts, line)
			continue
		}
		part.WriteString(line)
	}
	flush()
	return parts
}

// isContent reports whether a part of a file is a document with something in it.
func isContent(part string) bool {
	if separator.MatchString(strings.TrimRight(part, "\r\n")) {
		return false
	}
	for line := range strings.Lines(part) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

func newDocument(text string) (*document, error) {
	d := &document{lines: strings.Split(text, "\n")}
	if err := d.parse(); err != nil {
		return nil, err
	}
	if d.flow() {
		return d.inBlocks()
	}
	return d, nil
}

func (d *document) String() string { return strings.Join(d.lines, "\n") }

func (d *document) parse() error {
	var top yaml.Node
	if err := yaml.Unmarshal([]byte(d.String()), &top); err != nil {
		return fmt.Errorf("read YAML: %w", err)
	}
	if top.Kind != yaml.DocumentNode || len(top.Content) != 1 || top.Content[0].Kind != yaml.MappingNode {
		return errors.New("read YAML: it is no object")
	}
	d.top, d.root = &top, top.Content[0]
	return nil
}

// flow reports whether a place that is edited is written in braces, so that it has no lines of its own.
func (d *document) flow() bool {
	braces := func(n *yaml.Node) bool { return n != nil && n.Style&yaml.FlowStyle != 0 }
	spec := lookup(d.root, "spec")
	if braces(d.root) || braces(spec) || d.hasOldWebhook() && braces(lookup(spec, "conversion")) ||
		braces(lookup(spec, "versions")) {
		return true
	}
	return slices.ContainsFunc(d.versions(), func(item *yaml.Node) bool { return braces(item) || !d.afterDash(item) })
}

// afterDash reports whether an item of a list begins on the line of its dash.
func (d *document) afterDash(item *yaml.Node) bool {
	return strings.TrimSpace(d.lines[item.Line-1][:item.Column-1]) == "-"
}

// inBlocks writes the document again without braces.
func (d *document) inBlocks() (*document, error) {
	text, err := inBlocks(d.top)
	if err != nil {
		return nil, err
	}
	blocks := &document{lines: strings.Split(text, "\n")}
	return blocks, blocks.parse()
}

// inBlocks is a node as text without braces. It is for what was written in braces: comments stay, the layout cannot.
func inBlocks(node *yaml.Node) (string, error) {
	var unfold func(n *yaml.Node)
	unfold = func(n *yaml.Node) {
		if len(n.Content) > 0 {
			n.Style &^= yaml.FlowStyle
		}
		for _, child := range n.Content {
			unfold(child)
		}
	}
	unfold(node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return out.String(), nil
}

// lookup returns the value of a key; nil where there is none.
func lookup(mapping *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		i := index(mapping, key)
		if i < 0 {
			return nil
		}
		mapping = mapping.Content[i+1]
	}
	return mapping
}

// valueOf is the text of a scalar; empty where there is none.
func valueOf(mapping *yaml.Node, keys ...string) string {
	if n := lookup(mapping, keys...); n != nil {
		return n.Value
	}
	return ""
}

// index is the place of a key in a mapping's Content; -1 where there is none.
func index(mapping *yaml.Node, key string) int {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// isTrue and isFalse read a flag as the API server reads it, for which True and yes are flags too.
func isTrue(n *yaml.Node) bool {
	value, ok := flagOf(n)
	return ok && value
}

func isFalse(n *yaml.Node) bool {
	value, ok := flagOf(n)
	return ok && !value
}

func flagOf(n *yaml.Node) (value, ok bool) {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.ScalarNode ||
		n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	var read *bool // null is no flag
	if err := apiyaml.Unmarshal([]byte(n.Value), &read); err != nil || read == nil {
		return false, false
	}
	return *read, true
}

// isEmpty reports whether a value says nothing.
func isEmpty(n *yaml.Node) bool {
	return n == nil || n.Tag == "!!null" || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}

// span is a range of lines, the end excluded, and the column in which its keys begin.
type span struct{ start, end, indent int }

// entry is where a key and its value are, with the comments directly above.
func (d *document) entry(mapping *yaml.Node, key string) (span, bool) {
	i := index(mapping, key)
	if i < 0 {
		return span{}, false
	}
	node := mapping.Content[i]
	limit := len(d.lines)
	if i+2 < len(mapping.Content) {
		next := mapping.Content[i+2]
		limit = d.head(next.Line-1, next.Column-1)
	}
	return span{start: d.head(node.Line-1, node.Column-1), end: d.tail(node.Line-1, node.Column-1, limit),
		indent: node.Column - 1}, true
}

// item is where an item of a list is, without the comments above it.
func (d *document) item(n *yaml.Node) span {
	return span{start: n.Line - 1, end: d.tail(n.Line-1, n.Column-1, len(d.lines)), indent: n.Column - 1}
}

// head goes up from a line over the comments that belong to it: those that begin in its column.
func (d *document) head(line, indent int) int {
	for line > 0 && indentation(d.lines[line-1]) == indent && strings.HasPrefix(d.lines[line-1][indent:], "#") {
		line--
	}
	return line
}

// tail is the end of what belongs to a key: what is indented as the key or more, and everything between.
func (d *document) tail(line, indent, limit int) int {
	end := line + 1
	for i := line + 1; i < limit; i++ {
		text := d.lines[i]
		if strings.TrimSpace(text) == "" {
			continue
		}
		if indentation(text) < indent {
			if strings.HasPrefix(strings.TrimSpace(text), "#") {
				continue
			}
			break
		}
		end = i + 1
	}
	return end
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// cut copies the lines of a span, moved to another column.
func (d *document) cut(s span, indent int) []string {
	lines := slices.Clone(d.lines[s.start:s.end])
	for i, line := range lines {
		switch {
		case strings.TrimSpace(line) == "":
		case indentation(line) < s.indent: // a comment that hangs out
			lines[i] = strings.Repeat(" ", indent) + strings.TrimLeft(line, " ")
		default:
			lines[i] = strings.Repeat(" ", indent) + line[s.indent:]
		}
	}
	return lines
}

// replace puts lines in the place of a span and reads the document again.
func (d *document) replace(start, end int, lines ...string) error {
	d.lines = slices.Replace(d.lines, start, end, lines...)
	return d.parse()
}

// insert puts lines before a line.
func (d *document) insert(at int, lines ...string) error { return d.replace(at, at, lines...) }

// retoken replaces the beginning of a scalar's text, where it stands, and leaves quotes and what follows it.
func (d *document) retoken(n *yaml.Node, old, replacement string) error {
	line := []rune(d.lines[n.Line-1])
	before, after := string(line[:n.Column-1]), string(line[n.Column-1:])
	if !strings.Contains(after, old) {
		return fmt.Errorf("edit line %d: it has no %q", n.Line, old)
	}
	return d.replace(n.Line-1, n.Line, before+strings.Replace(after, old, replacement, 1))
}

// versions are the items of spec.versions.
func (d *document) versions() []*yaml.Node {
	list := lookup(d.root, "spec", "versions")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list.Content), func(n *yaml.Node) bool { return n.Kind != yaml.MappingNode })
}
