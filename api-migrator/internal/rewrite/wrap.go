// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
)

// Where a line goes on in the next one if it has become too long. These characters are of Unicode's private use, so that
// no code has them, and none is left in what is written.
const (
	outerBreak = "\uE001" // after an operator of the condition around a comparison
	innerBreak = "\uE002" // within a comparison, which stays in one piece as long as that is enough
)

const (
	longestLine = 120
	tabWidth    = 4
)

// markOperators marks the places after the operators of the condition around a comparison, each once. It reports whether
// the comparison is the operand of an operator, and so needs parentheses once it has one of its own.
func (s *editing) markOperators(file *project.File, comparison ast.Expr,
	marked map[token.Pos]bool) (edits []source.Edit, isOperand bool) {
	ast.Inspect(file.Syntax, func(node ast.Node) bool {
		if node == nil || node == comparison || node.Pos() > comparison.Pos() || node.End() < comparison.End() {
			return false
		}
		switch node.(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr:
			isOperand = true
		default:
			isOperand = false
		}
		if binary, ok := node.(*ast.BinaryExpr); ok && slices.Contains([]token.Token{token.LAND, token.LOR}, binary.Op) &&
			!marked[binary.OpPos] {
			marked[binary.OpPos] = true
			edits = append(edits, source.Insert(s.Project.Offset(binary.OpPos)+len(binary.Op.String()), outerBreak))
		}
		return true
	})
	return edits, isOperand
}

// wrapped is a text whose marked lines are broken where they are too long. gofmt indents what follows.
func wrapped(text string) string {
	if !strings.ContainsAny(text, outerBreak+innerBreak) {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(wrappedLine(line, "\t"))
	}
	return out.String()
}

// wrappedLine is one line, or several: what follows the first is indented by more than that.
func wrappedLine(line, more string) string {
	plain := unmarked(line)
	if columns(plain) <= longestLine {
		return plain
	}
	for _, mark := range []string{outerBreak, innerBreak} {
		at := -1
		for i := range line {
			if strings.HasPrefix(line[i:], mark) && columns(unmarked(line[:i])) <= longestLine &&
				strings.TrimSpace(unmarked(line[i:])) != "" {
				at = i
			}
		}
		if at >= 0 {
			ending := endingOf(line)
			indent := line[:len(line)-len(strings.TrimLeft(line, "\t"))] + more
			rest := indent + strings.TrimLeft(line[at+len(mark):], " ")
			if mark == innerBreak { // what comes after the comparison does not stand in the line of its second half
				rest = endedAt(rest, outerBreak, ending+indent)
			}
			var out strings.Builder
			out.WriteString(strings.TrimRight(unmarked(line[:at]), " ") + ending)
			for next := range strings.Lines(rest) {
				out.WriteString(wrappedLine(next, ""))
			}
			return out.String()
		}
	}
	return plain
}

// endingOf is how a line ends: LF or CRLF. gofmt does not format files with CRLF line endings.
func endingOf(line string) string {
	if strings.HasSuffix(line, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// endedAt puts a line ending at the first mark, if there is one and code comes after it.
func endedAt(line, mark, ending string) string {
	head, tail, found := strings.Cut(line, mark)
	if !found || strings.TrimSpace(unmarked(tail)) == "" {
		return line
	}
	return strings.TrimRight(head, " ") + ending + strings.TrimLeft(tail, " ")
}

func unmarked(line string) string {
	return strings.NewReplacer(outerBreak, "", innerBreak, "").Replace(line)
}

// columns is how wide a line is in an editor.
func columns(line string) int {
	line = strings.TrimRight(line, "\r\n")
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}
