// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// Patch shows a change of a file, and of its name, as git does, so that `git apply` takes it. It is empty where nothing
// changes.
func Patch(oldPath, newPath, before, after string) (string, error) {
	if oldPath == newPath && before == after {
		return "", nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "diff --git a/%s b/%s\n", oldPath, newPath)
	if oldPath != newPath {
		fmt.Fprintf(&out, "rename from %s\nrename to %s\n", oldPath, newPath)
	}
	const context = 3
	hunks, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(before), B: lines(after), FromFile: "a/" + oldPath, ToFile: "b/" + newPath, Context: context,
	})
	if err != nil {
		return "", fmt.Errorf("compare %s: %w", oldPath, err)
	}
	return out.String() + hunks, nil
}

// lines keeps the ends of lines, and says as git does where the last one has none.
func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if last := len(all) - 1; all[last] == "" {
		all = all[:last]
	} else {
		all[last] += "\n\\ No newline at end of file\n"
	}
	return all
}
