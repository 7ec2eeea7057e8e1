// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// crdsIn are the nodes of the CRDs in a document: the whole of it, or items of a list. A list in a list is refused, and
// an item that does not say what it is: they would be skipped otherwise.
func crdsIn(from string, root *yaml.Node) ([]*yaml.Node, error) {
	if isCRD(root) {
		return []*yaml.Node{root}, nil
	}
	kind, items := valueOf(root, "kind"), lookup(root, "items")
	if !strings.HasSuffix(kind, "List") || items == nil {
		return nil, nil
	}
	var found []*yaml.Node
	for _, item := range items.Content {
		if item.Kind == yaml.AliasNode && isCRD(item.Alias) {
			return nil, listed(from)
		}
		if isCRD(item) {
			found = append(found, item)
			continue
		}
		inner, err := crdsIn(from, item)
		if err != nil || len(inner) > 0 || kind == Kind+"List" && valueOf(item, "kind") == "" {
			return nil, listed(from)
		}
	}
	return found, nil
}

func isCRD(n *yaml.Node) bool {
	return valueOf(n, "kind") == Kind && strings.HasPrefix(valueOf(n, "apiVersion"), apiGroup+"/")
}

// list upgrades the CRDs among the items of a list. Each is edited as a document of its own.
func (u *upgrade) list(part string) (string, error) {
	if err := ends(u.from, part); err != nil {
		return "", err
	}
	d := &document{lines: strings.Split(strings.ReplaceAll(part, "\r\n", "\n"), "\n")}
	if err := d.parse(); err != nil {
		return "", fmt.Errorf("read %s: %w", u.from, err)
	}
	crds, err := crdsIn(u.from, d.root)
	if err != nil || len(crds) == 0 {
		return part, err
	}
	u.enclosed = true
	type replacement struct {
		at    span
		lines []string
	}
	var edits []replacement
	for _, node := range crds {
		at, text, ok := d.itemText(node)
		if !ok {
			return "", listed(u.from)
		}
		upgraded, err := u.object(text)
		if err != nil {
			return "", err
		}
		lines := strings.Split(strings.TrimSuffix(upgraded, "\n"), "\n")
		edits = append(edits, replacement{at, d.asItem(at, lines)})
	}
	for _, one := range slices.Backward(edits) { // from the end, so that the places before stay where they are
		d.lines = slices.Replace(d.lines, one.at.start, one.at.end, one.lines...)
	}
	if strings.Contains(part, "\r\n") {
		return strings.ReplaceAll(d.String(), "\n", "\r\n"), nil
	}
	return d.String(), nil
}

// itemText is an item of a list as a document of its own, and where it stands; false if it could not be put back as it
// was: it is written in braces, or a comment in it begins left of it.
func (d *document) itemText(n *yaml.Node) (span, string, bool) {
	if n.Style&yaml.FlowStyle != 0 || !d.afterDash(n) {
		return span{}, "", false
	}
	at := d.item(n)
	lines := d.cut(at, 0)
	lines[0] = d.lines[at.start][at.indent:]
	return at, strings.Join(lines, "\n"), slices.Equal(d.asItem(at, lines), d.lines[at.start:at.end])
}

// asItem puts the lines of a document behind the dash of an item.
func (d *document) asItem(at span, lines []string) []string {
	item := indented(lines, at.indent)
	item[0] = d.lines[at.start][:at.indent] + lines[0]
	return item
}
