// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"slices"
	"strings"
)

// columns is how wide a table, and the text below it, may be.
const columns = 120

// few is how many resources are named in one command.
const few = 5

// reason is why something is to be done about a resource, and the command that does it.
type reason struct {
	resource string
	// note stands in brackets behind the name: the file that the reason is about, for instance. Empty for none.
	note string
	why  string
	// next is the command; empty for none.
	next string
}

// together are resources with the same reason and the same command.
type together struct {
	names []string
	reason
}

// writeReasons writes each reason once, with all resources that it holds for and one command for all of them. Of more
// than most resources their number is written in place of their names; 0 for any number of names.
func writeReasons(b *strings.Builder, all []reason, most int) {
	var groups []together
	for _, r := range all {
		name := r.resource
		r.next = template(r.next, name)
		r.resource = ""
		i := slices.IndexFunc(groups, func(g together) bool { return g.reason == r })
		if i < 0 {
			i, groups = len(groups), append(groups, together{reason: r})
		}
		groups[i].names = append(groups[i].names, name)
	}
	for _, g := range groups {
		text := strings.Join(g.names, ", ")
		if most > 0 && len(g.names) > most {
			text = Count(int64(len(g.names))) + " resources"
		}
		if g.note != "" {
			text += " (" + g.note + ")"
		}
		wrap(b, clean(text)+": "+clean(g.why))
		if g.next != "" {
			b.WriteString("  Try: " + g.command() + "\n")
		}
	}
}

// template is a command with a place where its resource is named.
func template(command, name string) string {
	words := strings.Split(command, " ")
	for i, word := range words {
		if word == name {
			words[i] = "\x00"
		}
	}
	return strings.Join(words, " ")
}

// command is one command for all resources of the group. Beyond a few, it is the one for everything, where there is
// such a command.
func (g together) command() string {
	separator := " "
	if strings.HasPrefix(g.next, "kubectl get ") {
		separator = ","
	}
	if len(g.names) > few {
		for _, all := range [][2]string{{" request \x00", " request --all"}, {" migrate \x00", " migrate --all"},
			{" wait \x00", " progress -w"}, {" check \x00", " check"}} {
			if strings.Contains(g.next, all[0]) {
				return strings.Replace(g.next, all[0], all[1], 1)
			}
		}
	}
	return strings.ReplaceAll(g.next, "\x00", strings.Join(g.names, separator))
}

// wrap writes words in lines that fit; those after the first are indented.
func wrap(b *strings.Builder, text string) {
	const indent = "    "
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > columns:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	b.WriteString(line + "\n")
}
