// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the repository's root, seen from this package.
const root = "../.."

// document is a Markdown file of the repository.
type document struct {
	path   string // from the repository's root
	source []byte
	tree   ast.Node
}

// documents are the pages that people read; a program writes those in docs/cli, testdata is input of tests, and the
// change log tells of what was.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	for _, path := range tracked(t, "*.md") {
		if strings.HasPrefix(path, "docs/cli/") || strings.HasPrefix(path, "changelog/") || strings.Contains(path, "testdata/") {
			continue
		}
		all = append(all, open(t, path))
	}
	if len(all) < 40 {
		t.Fatalf("only %d documents were found", len(all))
	}
	return all
}

// open reads one document.
func open(t *testing.T, path string) document {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	return document{path: path, source: source, tree: parser.Parse(text.NewReader(source))}
}

// tracked are the files that git tracks, or would track, and that match a pattern of git.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"},
		patterns...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	return strings.Fields(string(out))
}

// each calls f for every node of a kind, in the order of the text.
func each[N ast.Node](d document, f func(N)) {
	// The walk ends with an error only if the function returns one.
	_ = ast.Walk(d.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if node, ok := n.(N); ok && entering {
			f(node)
		}
		return ast.WalkContinue, nil
	})
}

// plain is the text below a node, without what marks it.
func (d document) plain(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(d.source))
				if n.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// block is the text of a code block.
func (d document) block(n ast.Node) string {
	return string(n.Lines().Value(d.source))
}

// line is the line on which a node begins, or the block that it stands in.
func (d document) line(n ast.Node) int {
	for ; n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines() != nil && n.Lines().Len() > 0 {
			return 1 + strings.Count(string(d.source[:n.Lines().At(0).Start]), "\n")
		}
	}
	return 1
}
