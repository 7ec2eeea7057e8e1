// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package source edits Go files by ranges of bytes instead of printing their syntax, so that comments, markers and line
// endings stay where they are. It knows where a declaration ends and to whom a comment belongs; it knows nothing of
// what an edit is for.
package source

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// Edit replaces a range of bytes.
type Edit struct {
	From, To int
	Text     string
}

// Splice applies edits to a range of source. Of edits that overlap the outer one wins: what it
// writes stands for everything below it.
func Splice(source []byte, from, to int, edits []Edit) string {
	sorted := slices.Clone(edits)
	slices.SortStableFunc(sorted, func(a, b Edit) int {
		switch aInserts, bInserts := a.From == a.To, b.From == b.To; {
		case a.From != b.From:
			return a.From - b.From
		case aInserts != bInserts && aInserts:
			return -1 // what is inserted stands before what is replaced
		case aInserts != bInserts:
			return 1
		default:
			return b.To - a.To
		}
	})
	var out strings.Builder
	at := from
	for _, e := range sorted {
		if e.From < at || e.To > to {
			continue
		}
		out.Write(source[at:e.From])
		out.WriteString(e.Text)
		at = e.To
	}
	out.Write(source[at:to])
	return out.String()
}

// WholeLines widens a range over the white space and the newline around it, so that removing it leaves no empty line.
func WholeLines(source []byte, from, to int) (int, int) {
	for from > 0 && (source[from-1] == ' ' || source[from-1] == '\t') {
		from--
	}
	for to < len(source) && (source[to] == ' ' || source[to] == '\t') {
		to++
	}
	if from == 0 || source[from-1] == '\n' {
		to += newlineAt(source, to)
	}
	return from, to
}

// newlineAt is the length of the line ending at an offset, LF or CRLF; 0 without one.
func newlineAt(source []byte, at int) int {
	switch rest := source[at:]; {
	case bytes.HasPrefix(rest, []byte("\n")):
		return 1
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return 2
	}
	return 0
}

// FollowsEmptyLine reports whether the line of an offset comes after an empty one.
func FollowsEmptyLine(source []byte, at int) bool {
	above := source[:bytes.LastIndexByte(source[:at], '\n')+1]
	return bytes.HasSuffix(above, []byte("\n\n")) || bytes.HasSuffix(above, []byte("\n\r\n"))
}

// Span is a range of bytes of a file.
type Span struct{ From, To int }

// Replacement replaces a span. With an empty text it removes the line and the empty line after it, too.
func Replacement(source []byte, at Span, text string) Edit {
	if text == "" {
		at.From, at.To = WholeLines(source, at.From, at.To)
		at.To += newlineAt(source, at.To)
	}
	return Edit{at.From, at.To, text}
}

// IndentOf is the white space before an offset in its line.
func IndentOf(source []byte, at int) string {
	from := at
	for from > 0 && (source[from-1] == '\t' || source[from-1] == ' ') {
		from--
	}
	return string(source[from:at])
}

// Over replaces the bytes between two offsets.
func Over(from, to int, text string) Edit { return Edit{from, to, text} }

// Insert adds text at an offset.
func Insert(at int, text string) Edit { return Edit{at, at, text} }

// Replace replaces a piece of syntax.
func Replace(fset *token.FileSet, node ast.Node, text string) Edit {
	return Edit{offset(fset, node.Pos()), offset(fset, node.End()), text}
}

// Remove removes a piece of syntax; the line too, if nothing else is on it.
func Remove(fset *token.FileSet, source []byte, node ast.Node) Edit {
	from, to := WholeLines(source, offset(fset, node.Pos()), offset(fset, node.End()))
	return Edit{from, to, ""}
}
