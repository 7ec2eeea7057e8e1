// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// JSON has no comments, and its braces and commas depend on what stands next to them, so it is edited as a tree and
// written again. That keeps every other byte if the layout of a text gives the text back from its own tree. A text with
// another layout is refused.

// layout is how a JSON text is laid out.
type layout struct {
	// lead and end are the white space around the value.
	lead, end string
	// newline ends a line, and indent is that of one level. Both are empty in a text of one line.
	newline, indent string
	comma, colon    string
	// gap is within an empty object or list.
	gap string
	// flow says which lists of scalars are on one line in a text of several lines, by the number of their elements and
	// the column in which they end; nil means none. Their commas are flowComma.
	flow      func(elements, end int) bool
	flowComma string
	// escapes are the characters that are written as \u and a number, besides those that JSON demands.
	escapes func(r rune) bool
}

// layoutOf finds the layout of a text, with which its tree becomes the same text; false without one.
func layoutOf(text string, root *yaml.Node) (layout, bool) {
	const space = " \t\r\n"
	body := strings.Trim(text, space)
	lead, end, _ := strings.Cut(text, body)
	l := layout{lead: lead, end: end}
	if first, rest, isLong := strings.Cut(body, "\n"); isLong {
		l.newline = first[len(strings.TrimRight(first, "\r")):] + "\n"
		l.indent = rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
		if l.indent == "" {
			return l, false
		}
	}
	lines := []layout{l}
	if l.newline != "" {
		lines = l.withFlow(root)
	}
	for _, l = range lines {
		if l.fits(text, root) {
			return l, true
		}
	}
	return l, false
}

// fits finds the separators and escapes with which the tree becomes the text.
func (l *layout) fits(text string, root *yaml.Node) bool {
	for _, l.comma = range []string{",", ", "} {
		for _, l.colon = range []string{": ", ":", " : "} {
			for _, l.gap = range []string{"", " "} { // jsonnet writes a space
				for _, l.escapes = range []func(rune) bool{escapedByEncoders, escapedForHTML, escapedForASCII, escapedNever} {
					if again, err := l.text(root); err == nil && again == text {
						return true
					}
				}
			}
		}
	}
	return false
}

// withFlow are the layouts with lists of scalars on one line, after the one without: as many elements as any such list
// has, or what fits on a line of usual length.
func (l layout) withFlow(root *yaml.Node) []layout {
	all := []layout{l}
	most := flowElements(root)
	if most == 0 {
		return all
	}
	for _, l.flowComma = range []string{", ", ","} {
		l.flow = func(elements, _ int) bool { return elements <= most }
		all = append(all, l)
		for _, width := range []int{80, 100, 120} {
			l.flow = func(_, end int) bool { return end <= width }
			all = append(all, l)
		}
	}
	return all
}

// flowElements is how many elements the longest list of scalars has that begins on the line of its bracket.
func flowElements(n *yaml.Node) int {
	most := 0
	if isOfScalars(n) && n.Content[0].Line == n.Line {
		most = len(n.Content)
	}
	for _, one := range n.Content {
		most = max(most, flowElements(one))
	}
	return most
}

func isOfScalars(n *yaml.Node) bool {
	return n.Kind == yaml.SequenceNode && len(n.Content) > 0 &&
		!slices.ContainsFunc(n.Content, func(one *yaml.Node) bool { return one.Kind != yaml.ScalarNode })
}

// Which characters encoders escape: Go's with and without SetEscapeHTML, Python's by default, and jsonnet.
func escapedByEncoders(r rune) bool { return r == '\u2028' || r == '\u2029' }
func escapedForHTML(r rune) bool    { return escapedByEncoders(r) || strings.ContainsRune("<>&", r) }
func escapedForASCII(r rune) bool   { return r >= utf8.RuneSelf }
func escapedNever(rune) bool        { return false }

// text writes a tree.
func (l layout) text(root *yaml.Node) (string, error) {
	var out strings.Builder
	out.WriteString(l.lead)
	if err := l.write(&out, root, l.newline); err != nil {
		return "", err
	}
	out.WriteString(l.end)
	return out.String(), nil
}

// write writes a value. The newline has the indentation of the line on which the value begins.
func (l layout) write(out *strings.Builder, n *yaml.Node, newline string) error {
	open, closing, step := "{", "}", 2
	switch n.Kind {
	case yaml.ScalarNode:
		text, err := l.scalar(n)
		out.WriteString(text)
		return err
	case yaml.SequenceNode:
		open, closing, step = "[", "]", 1
		if isFlow, err := l.writeFlow(out, n); isFlow || err != nil {
			return err
		}
	case yaml.MappingNode:
	default:
		return fmt.Errorf("line %d has no form in JSON", n.Line)
	}
	out.WriteString(open)
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			out.WriteString(l.comma)
		}
		out.WriteString(newline + l.indent)
		if step == 2 {
			out.WriteString(l.quoted(n.Content[i].Value) + l.colon)
		}
		if err := l.write(out, n.Content[i+step-1], newline+l.indent); err != nil {
			return err
		}
	}
	if len(n.Content) == 0 {
		newline = l.gap
	}
	out.WriteString(newline + closing)
	return nil
}

// writeFlow writes a list of scalars on one line; false if it is not one that is on one line.
func (l layout) writeFlow(out *strings.Builder, n *yaml.Node) (bool, error) {
	if l.flow == nil || !isOfScalars(n) {
		return false, nil
	}
	var elements []string
	for _, one := range n.Content {
		text, err := l.scalar(one)
		if err != nil {
			return false, err
		}
		elements = append(elements, text)
	}
	list := "[" + strings.Join(elements, l.flowComma) + "]"
	written := out.String()
	end := utf8.RuneCountInString(written[strings.LastIndexByte(written, '\n')+1:] + list)
	if !l.flow(len(n.Content), end) {
		return false, nil
	}
	out.WriteString(list)
	return true, nil
}

func (l layout) scalar(n *yaml.Node) (string, error) {
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return "", fmt.Errorf("line %d has no form in JSON: %s", n.Line, n.Value)
		}
		return n.Value, nil
	}
	return l.quoted(n.Value), nil
}

// quoted is a string as JSON has it.
func (l layout) quoted(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		if i := strings.IndexRune("\"\\\b\f\n\r\t", r); i >= 0 {
			out.WriteString([]string{`\"`, `\\`, `\b`, `\f`, `\n`, `\r`, `\t`}[i])
			continue
		}
		switch {
		case r > 0xffff && l.escapes(r):
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		case r < ' ', l.escapes(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// json upgrades the CRDs of a document that is JSON. What is not upgraded keeps every byte.
func (u *upgrade) json(part string) (string, error) {
	d := &document{lines: strings.Split(part, "\n")}
	if err := d.parse(); err != nil {
		return "", fmt.Errorf("read %s: %w", u.from, err)
	}
	crds, err := crdsIn(u.from, d.root)
	if err != nil {
		return "", err
	}
	l, isKnown := layoutOf(part, d.root)
	u.enclosed = true
	changed := false
	for _, node := range crds {
		before, err := inBlocks(node)
		if err != nil {
			return "", err
		}
		after, err := u.object(before)
		if err != nil {
			return "", err
		}
		if after == before {
			continue
		}
		edited := &document{lines: strings.Split(after, "\n")}
		if err := edited.parse(); err != nil {
			return "", fmt.Errorf("upgrade %s: %w", u.from, err)
		}
		node.Content, changed = edited.root.Content, true
	}
	switch {
	case !changed:
		return part, nil
	case !isKnown:
		return "", &UnfitError{u.from, "it is JSON in a layout that cannot be kept: write it with one field on each line",
			"jq . FILE"}
	}
	return l.text(d.root)
}

// isJSON reports whether a document is JSON rather than YAML in another form.
func isJSON(part string) bool { return json.Valid([]byte(part)) }
