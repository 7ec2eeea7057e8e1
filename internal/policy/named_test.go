// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"strings"
	"testing"
)

// testName is a test as a document names it, testFunction as a file has it.
var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// A mitigation that a document claims is held by a test that is there.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	for _, path := range files(t, ".go") {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, match := range testFunction.FindAllSubmatch(read(t, path), -1) {
			tests[string(match[1])] = true
		}
	}
	named := 0
	for _, path := range files(t, ".md") {
		if !strings.HasPrefix(path, "docs/") {
			continue
		}
		for _, match := range testName.FindAllStringSubmatch(string(read(t, path)), -1) {
			named++
			if !tests[match[1]] {
				t.Errorf("%s names %s, which is no test", path, match[1])
			}
		}
	}
	if named < 40 {
		t.Errorf("%d names of tests were found in documents: the test looks in the wrong place", named)
	}
}
