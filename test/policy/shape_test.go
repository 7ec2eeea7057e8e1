// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"go/scanner"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxColumns is what fits beside another version of the file in a review; code and comments wrap at 120. String
	// literals do not count: a message or a JSON document is searched for as a whole.
	maxColumns = 140
	// maxLines is what a reader can hold in mind.
	maxLines = 400
	// maxFiles of a package, without its tests.
	maxFiles = 25
)

// handwritten returns the Go files that are neither generated nor input of a test.
func handwritten(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, name := range files(t, ".go") {
		if !strings.Contains(name, "/testdata/") && !strings.Contains(filepath.Base(name), "zz_generated") {
			names = append(names, name)
		}
	}
	return names
}

func TestLinesOfCodeFitNextToEachOther(t *testing.T) {
	for _, name := range handwritten(t) {
		for i, line := range strings.Split(withoutLiterals(read(t, name)), "\n") {
			if n := columns(line); n > maxColumns {
				t.Errorf("%s:%d: %d columns without its string literals, at most %d", name, i+1, n, maxColumns)
			}
		}
	}
}

// withoutLiterals returns the source with strings, and comments that are directives, emptied; the lines stay.
func withoutLiterals(source []byte) string {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	var out strings.Builder
	end := 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		directive := tok == token.COMMENT && (strings.HasPrefix(literal, "// +") || strings.HasPrefix(literal, "//go:"))
		if tok != token.STRING && !directive {
			continue
		}
		at := file.Offset(pos)
		out.Write(source[end:at])
		out.WriteString(strings.Repeat("\n", strings.Count(literal, "\n")))
		end = at + len(literal)
	}
	out.Write(source[end:])
	return out.String()
}

// columns counts a tab as four.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func TestStringLiteralsAndDirectivesDoNotCount(t *testing.T) {
	source := "\ta := `one\ntwo` + \"three\" // four\n// +kubebuilder:five\n"
	if got, want := withoutLiterals([]byte(source)), "\ta := \n +  // four\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := columns("\tä"); got != 5 {
		t.Errorf("%d columns, want 5", got)
	}
}

func TestFilesAndPackagesAreSmall(t *testing.T) {
	counts := map[string]int{}
	for _, name := range handwritten(t) {
		if n := strings.Count(string(read(t, name)), "\n"); n > maxLines {
			t.Errorf("%s has %d lines, at most %d", name, n, maxLines)
		}
		if !strings.HasSuffix(name, "_test.go") {
			counts[filepath.Dir(name)]++
		}
	}
	for folder, n := range counts {
		if n > maxFiles {
			t.Errorf("%s has %d files besides its tests, at most %d", folder, n, maxFiles)
		}
	}
	if len(counts) < 40 {
		t.Errorf("only %d packages were counted", len(counts))
	}
}
