// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// generatedDocuments are those whose words come from code.
var generatedDocuments = []string{"docs/cli/", "docs/releases.md"}

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

func TestDocumentsUseTheWordsOfTheField(t *testing.T) {
	words := avoided(t)
	if len(words) < 10 || !slices.Contains(words, "nobody") {
		t.Fatalf("the list of words is %q", words)
	}
	for i, word := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), " ", `\s+`) // a line can end in the middle
	}
	pattern := regexp.MustCompile(`(?i)\b(?:` + strings.Join(words, "|") + `)\b`)
	documents := 0
	for _, name := range files(t, ".md") {
		if name == "CONTRIBUTING.md" || strings.Contains(name, "/testdata/") ||
			slices.ContainsFunc(generatedDocuments, func(prefix string) bool {
				return strings.HasPrefix(name,
					prefix)
			}) {
			continue
		}
		documents++
		for _, found := range pattern.FindAllString(string(read(t, name)), -1) {
			t.Errorf("%s: %q is not a word of the field; CONTRIBUTING.md names a better one", name, found)
		}
	}
	if documents < 20 {
		t.Errorf("%d documents were read", documents)
	}
}
