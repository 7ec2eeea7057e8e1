// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"errors"
	"fmt"
	"strings"
)

// UnfitError is the error of Upgrade where a file is in a form in which lines cannot be moved.
type UnfitError struct {
	From, Why string
	// command brings FILE into another form, or shows more.
	command string
}

func (e *UnfitError) Error() string { return fmt.Sprintf("upgrade %s: %s", e.From, e.Why) }

// Try is a command that helps with the file.
func (e *UnfitError) Try(file string) string { return strings.ReplaceAll(e.command, "FILE", file) }

// unreadable explains why a document cannot be read.
func unreadable(from, part string, err error) error {
	if strings.Contains(part, "{{") {
		return &UnfitError{from, "it is a template ({{ }}), and no YAML: upgrade what it becomes, and carry the " +
			"change over", "helm template --include-crds CHART"}
	}
	return err
}

// listed refuses a list in which items cannot be edited where they are.
func listed(from string) error {
	return &UnfitError{from, "it has a " + Kind + " in a list in which it cannot be edited: make each item a document " +
		"of its own", "yq '.items[] | split_doc' FILE"}
}

// ends refuses a document with two ways to end a line: the lines that an upgrade writes could not be told which is
// theirs.
func ends(from, part string) error {
	if windows := strings.Count(part, "\r\n"); windows > 0 && windows < strings.Count(part, "\n") {
		return &UnfitError{from, "some of its lines end as on Windows, and some do not", `sed -i 's/\r$//' FILE`}
	}
	return nil
}

// tangled explains an error of an edit.
func tangled(from string, err error) error {
	if strings.Contains(err.Error(), "unknown anchor") { // as the YAML parser says it, which has no type for it
		return &UnfitError{from, "an alias (*) in it would not find its anchor (&) where the lines go: write out " +
			"what it stands for", "yq 'explode(.)' FILE"}
	}
	if pruned := (*prunedError)(nil); errors.As(err, &pruned) {
		return &UnfitError{from, pruned.Error() + ": write out merge keys (<<), and {} where a field has no schema",
			"yq 'explode(.)' FILE"}
	}
	return fmt.Errorf("upgrade %s: %w", from, err)
}
