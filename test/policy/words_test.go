// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"go/scanner"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readable are the extensions of files without Go that people read and edit.
var readable = []string{".md", ".yml", ".yaml", ".tpl", ".tmpl", ".txt", ".css", ".js"}

// generatedDocuments are those whose words come from code.
var generatedDocuments = []string{"docs/api.md", "docs/cli/", "docs/releases.md"}

// avoided returns the words that CONTRIBUTING.md asks to avoid.
func avoided(t *testing.T) []string {
	t.Helper()
	_, section, found := strings.Cut(string(read(t, "CONTRIBUTING.md")), "\n## Words\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section Words")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var words []string
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "-") || strings.TrimSpace(cells[1]) == "not" {
			continue
		}
		for word := range strings.SplitSeq(cells[1], ",") {
			words = append(words, strings.TrimSpace(word))
		}
	}
	return words
}

// avoidedWords returns what finds avoided words.
func avoidedWords(t *testing.T) *regexp.Regexp {
	t.Helper()
	words := avoided(t)
	if len(words) < 10 || !slices.Contains(words, "nobody") {
		t.Fatalf("the list of words is %q", words)
	}
	for i, word := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`) // a line can end in the middle
	}
	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`)
}

func TestDocumentsUseTheWordsOfTheField(t *testing.T) {
	pattern := avoidedWords(t)
	documents := 0
	for _, name := range append(files(t, readable...), "Makefile", ".ci/run") {
		if name == "CONTRIBUTING.md" || strings.Contains(name, "/testdata/") || fromCode(name) {
			continue
		}
		documents++
		for _, found := range pattern.FindAllString(string(read(t, name)), -1) {
			t.Errorf("%s: %q is not a word of the field; CONTRIBUTING.md names a better one", name, found)
		}
	}
	if documents < 60 {
		t.Errorf("%d documents were read", documents)
	}
}

func fromCode(name string) bool {
	return slices.ContainsFunc(generatedDocuments, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func TestCommentsAndStringsUseTheWordsOfTheField(t *testing.T) {
	pattern := avoidedWords(t)
	for _, name := range handwritten(t) {
		if strings.HasPrefix(name, "test/policy/") || name == "api-migrator/internal/rewrite/create.go" {
			continue // the first quotes the words; the second writes "API definitions", and means types, into projects
		}
		source := read(t, name)
		for _, text := range append(texts(source), testNames(source)...) {
			for _, found := range pattern.FindAllString(text, -1) {
				t.Errorf("%s: %q is not a word of the field; CONTRIBUTING.md names a better one", name, found)
			}
		}
	}
}

// testNames returns the names of the tests in a source, as sentences.
func testNames(source []byte) []string {
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`).FindAllSubmatch(source, -1) {
		words := regexp.MustCompile(`[A-Z][a-z0-9]*`).FindAllString(string(match[1]), -1)
		names = append(names, strings.Join(words, " "))
	}
	return names
}

// texts returns the comments of a source, those of adjacent lines in one piece, and its strings.
func texts(source []byte) []string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), source, nil, scanner.ScanComments)
	var all []string
	comment := ""
	for {
		_, tok, literal := s.Scan()
		if tok == token.COMMENT {
			comment += strings.TrimPrefix(literal, "//")
			continue
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // inserted at the end of a line, before its comment
		}
		if comment != "" {
			all = append(all, comment)
			comment = ""
		}
		switch tok {
		case token.EOF:
			return all
		case token.STRING:
			if !strings.HasPrefix(literal, "`json:") {
				all = append(all, literal)
			}
		}
	}
}

func TestTextsAreCommentsAndStrings(t *testing.T) {
	source := "package p // one\n// two\nvar nobody = \"three\" + `four`\n"
	want := []string{" one two", "\"three\"", "`four`"}
	if got := texts([]byte(source)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNamesOfTestsAreSentences(t *testing.T) {
	source := "package p\n\nfunc TestACRDWaitsForEver(t *testing.T) {}\n\nfunc TestNobody(t *testing.T) {}\n"
	want := []string{"Test A C R D Waits For Ever", "Test Nobody"}
	if got := testNames([]byte(source)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
