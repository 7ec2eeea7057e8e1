// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's root, seen from this package.
const root = "../.."

const header = "// SPDX-FileCopyrightText: The kube-migrator Authors\n// SPDX-License-Identifier: Apache-2.0\n"

// vague names say what kind of code a package holds instead of what it is about.
var vague = []string{"base", "common", "helper", "helpers", "misc", "shared", "util", "utils"}

// foreign matches what ties a file to the machine or the company of the person who wrote it.
var foreign = []struct {
	pattern *regexp.Regexp
	reason  string
	// except lists texts that match and are meant.
	except []string
}{
	{
		pattern: regexp.MustCompile(`(?:^|[^\w.~}/-])/(?:root|home/\w+|Users/\w+|work(?:space|spaces)?|builds|tmp/[\w.-]+)/[\w.-]*`),
		reason:  "a path of one machine; say it relative to the repository, or make it configurable",
	},
	{
		pattern: regexp.MustCompile(`\b[\w.-]+\.(?:corp|internal|intra|intranet|lan|local)(?::\d+)?/`),
		reason:  "a host of one network",
		except:  []string{"internal.apiserver.k8s.io/", "cluster.local/"},
	},
	{
		pattern: regexp.MustCompile(`\b(?:artifactory|nexus|harbor|jfrog)\.[\w.-]+`),
		reason:  "a registry of one company; packages come from their public home",
	},
}

func TestEveryGoFileBeginsWithTheLicenceHeader(t *testing.T) {
	for _, path := range files(t, ".go") {
		if content := read(t, path); !bytes.HasPrefix(content, []byte(header)) {
			t.Errorf("%s does not begin with\n%s", path, header)
		}
	}
}

func TestEveryPackageHasExactlyOneComment(t *testing.T) {
	comments := map[string][]string{} // by folder: the files that have one
	names := map[string]string{}
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := parse(t, path)
		folder := filepath.Dir(path)
		names[folder] = file.Name.Name
		if file.Doc == nil {
			continue
		}
		comments[folder] = append(comments[folder], path)
		if want := beginning(folder, file.Name.Name); !strings.HasPrefix(file.Doc.Text(), want) {
			t.Errorf("%s: the package comment begins with %q, want %q", path, firstLine(file.Doc.Text()), want+"…")
		}
	}
	for folder, name := range names {
		if n := len(comments[folder]); n != 1 {
			t.Errorf("package %s in %s has %d package comments, want one: %v", name, folder, n, comments[folder])
		}
	}
}

func TestNoPackageIsNamedAfterAKindOfCode(t *testing.T) {
	for _, path := range files(t, ".go") {
		name := strings.TrimSuffix(parse(t, path).Name.Name, "_test")
		if slices.Contains(vague, name) || slices.Contains(vague, filepath.Base(filepath.Dir(path))) {
			t.Errorf("%s: a package is named after what it is about, not %q", path, name)
		}
	}
}

func TestNoFileNamesTheMachineItWasWrittenOn(t *testing.T) {
	for _, path := range files(t) {
		content := read(t, path)
		if bytes.IndexByte(content, 0) >= 0 || path == "internal/policy/files_test.go" {
			continue
		}
		for _, problem := range foreignWords(string(content)) {
			t.Errorf("%s: %s", path, problem)
		}
	}
}

func TestForeignWordsAreTold(t *testing.T) {
	for text, want := range map[string]bool{
		"cd /home/alice/src":                           true,
		"`/root/go/bin/tool`":                          true,
		"see /Users/bob/notes.md":                      true,
		"GOPROXY=https://proxy.example.corp/go":        true,
		"image: artifactory.example.com/base":          true,
		"/apis/internal.apiserver.k8s.io/v1alpha1":     false,
		"kubernetes.default.svc.cluster.local/apis":    false,
		"the package internal/pace/ and /registry/":    false,
		"https://example.com/root/of/trust":            false,
		"github.com/x/y/internal/root/file":            false,
		"a cache folder such as ~/.cache/root/thing":   false,
		"path.Join(home, \"work\", \"dir\") of a user": false,
	} {
		if got := len(foreignWords(text)) > 0; got != want {
			t.Errorf("%q: foreign %v, want %v", text, got, want)
		}
	}
}

// foreignWords returns what does not belong into a file with this text, with the reason.
func foreignWords(text string) []string {
	var problems []string
	for _, f := range foreign {
		for _, match := range f.pattern.FindAllString(text, -1) {
			if !slices.ContainsFunc(f.except, func(meant string) bool { return strings.HasSuffix(match, meant) }) {
				problems = append(problems, strings.TrimSpace(match)+": "+f.reason)
			}
		}
	}
	return problems
}

// beginning is how a package comment starts.
func beginning(folder, name string) string {
	if name != "main" {
		return "Package " + name + " "
	}
	return "Command " + filepath.Base(folder) + " "
}

// files returns the repository's files with one of the extensions, or all, relative to the root: what is checked in or
// about to be, not what git ignores.
func files(t *testing.T, extensions ...string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist", "bench/results"}, relative) {
				return fs.SkipDir
			}
			return nil
		}
		if entry.Type().IsRegular() && (len(extensions) == 0 || slices.Contains(extensions, filepath.Ext(path))) {
			paths = append(paths, relative)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk the repository: %v", err)
	}
	if len(paths) == 0 {
		t.Fatalf("no files %v below %s", extensions, root)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
