// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path/filepath"
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

// quoted is what a document has between backticks; identifier is a name of Go code there.
var (
	quoted     = regexp.MustCompile("`([^`]+)`")
	identifier = regexp.MustCompile(`^[A-Za-z]\w+(\.[A-Za-z]\w+)?$`)
)

func TestTheArchitecturePageNamesWhatExists(t *testing.T) {
	_, section, found := strings.Cut(string(read(t, "ARCHITECTURE.md")), "\n## Where do I add …\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section Where do I add …")
	}
	var code strings.Builder
	bases := map[string]bool{}
	for _, name := range files(t, ".go") {
		code.Write(read(t, name))
		bases[filepath.Base(name)] = true
	}
	names := 0
	for _, match := range quoted.FindAllStringSubmatch(section, -1) {
		switch name := match[1]; {
		case strings.HasSuffix(name, ".go") && !strings.Contains(name, "/"):
			if names++; !bases[name] {
				t.Errorf("there is no file %s", name)
			}
		case identifier.MatchString(name):
			last := name[strings.LastIndex(name, ".")+1:]
			if names++; !regexp.MustCompile(`\b` + last + `\b`).MatchString(code.String()) {
				t.Errorf("no Go code has the name %s", name)
			}
		}
	}
	if names < 30 {
		t.Errorf("only %d names were found", names)
	}
}
