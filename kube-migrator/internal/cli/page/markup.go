// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"html"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// markup is HTML. Only this file makes it out of text of others; everywhere else it is combined, or comes from a
// constant.
type markup string

// attributes are pairs of a name, which is a constant, and a value of any text.
type attributes []string

// text shows any text as it is: markup in it is escaped, and so are the control characters that may hide or reorder
// what a reader sees.
func text(s string) markup { return markup(html.EscapeString(printable.Text(s))) }

// element returns an element with a constant name. Values of attributes are always in quotes. No attribute may have a
// text of others as its value whose value is a URL, a style or a script.
func element(name string, with attributes, children ...markup) markup {
	var b strings.Builder
	b.WriteString(string(empty(name, with)))
	for _, child := range children {
		b.WriteString(string(child))
	}
	b.WriteString("</" + name + ">")
	return markup(b.String())
}

// empty returns an element that has no end.
func empty(name string, with attributes) markup {
	var b strings.Builder
	b.WriteString("<" + name)
	for pair := range slices.Chunk(with, 2) {
		b.WriteString(" " + pair[0] + `="` + string(text(pair[1])) + `"`)
	}
	b.WriteString(">")
	return markup(b.String())
}

// class is the attribute of that name.
func class(names ...string) attributes {
	return attributes{"class", strings.TrimSpace(strings.Join(names, " "))}
}

// join puts markup one after the other.
func join(all ...markup) markup {
	var b strings.Builder
	for _, m := range all {
		b.WriteString(string(m))
	}
	return markup(b.String())
}
