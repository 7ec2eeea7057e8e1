// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package compare shows how two values differ. Only tests import it.
//
// It stands in for a larger library so that the module of the library requires nothing that its users do not link.
package compare

import (
	"reflect"
	"slices"
	"strings"

	"github.com/davecgh/go-spew/spew"
)

// shown prints every field of a value in the same way every time: without addresses, and with the keys of maps sorted.
var shown = spew.ConfigState{Indent: "  ", DisableMethods: true, DisablePointerAddresses: true, DisableCapacities: true,
	SortKeys: true, SpewKeys: true}

// Diff returns the lines in which got differs from want, each with "-" or "+" in front, and "" if reflect.DeepEqual takes
// them as equal. Strings are compared line by line, all other values as they are printed.
func Diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	if lines := Lines(text(want), text(got)); lines != "" {
		return lines
	}
	return "different values that are printed alike:\n" + text(got)
}

// Lines returns the lines in which two texts differ, each with "-" or "+" in front, and between them two dots for what
// is the same in both.
func Lines(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	same := false
	for step := range steps(a, b) {
		if step.sign == ' ' {
			same = true
			continue
		}
		if same {
			out.WriteString("  ..\n")
			same = false
		}
		out.WriteByte(step.sign)
		out.WriteByte(' ')
		out.WriteString(step.line)
		out.WriteByte('\n')
	}
	return out.String()
}

func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return shown.Sdump(value)
}

type step struct {
	sign byte // ' ', '-' or '+'
	line string
}

// steps are the lines of a longest common subsequence of a and b, and around them what only one of the two has.
func steps(a, b []string) func(yield func(step) bool) {
	// length[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			length[i][j] = max(length[i+1][j], length[i][j+1])
			if line == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			}
		}
	}
	return func(yield func(step) bool) {
		for i, j := 0, 0; i < len(a) || j < len(b); {
			var s step
			switch {
			case i < len(a) && j < len(b) && a[i] == b[j]:
				s = step{' ', a[i]}
				i, j = i+1, j+1
			case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
				s = step{'-', a[i]}
				i++
			default:
				s = step{'+', b[j]}
				j++
			}
			if !yield(s) {
				return
			}
		}
	}
}
