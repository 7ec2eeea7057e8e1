// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package phrase puts numbers and lists of names into sentences for users, in the same way in both programs. It is
// pure.
package phrase

import (
	"fmt"
	"strings"
)

// Count returns a number with its noun: "1 object", "2 objects".
func Count[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Objects returns a number of objects: "1 object", "2 objects".
func Objects(n int64) string { return Count(n, "object", "objects") }

// few is how many names a sentence can bear.
const few = 5

// Few returns the first five names, and how many more there are: "a, b, c, d, e and 2 more".
func Few(names []string) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}
