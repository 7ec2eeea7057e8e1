// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// repository is where links to files of this repository point to that other programs show.
const repository = "https://github.com/kube-migrator/kube-migrator/blob/main/"

// page is the path of a document, as text names it between backticks.
var page = regexp.MustCompile(`^(docs/[\w./-]+\.md|(?:ARCHITECTURE|CONTRIBUTING|GOVERNANCE|README|SECURITY)\.md)(#.*)?$`)

func TestLinksLeadSomewhere(t *testing.T) {
	anchors := map[string][]string{}
	all := documents(t)
	for _, d := range all {
		anchors[d.path] = d.anchors()
	}
	files := tracked(t)
	links := 0
	for _, d := range all {
		follow := func(n ast.Node, target string) {
			links++
			file, anchor, _ := strings.Cut(target, "#")
			if file == "" {
				file = d.path
			}
			known, isPage := anchors[file]
			switch {
			case !exists(files, file):
				t.Errorf("%s:%d: there is no file %s", d.path, d.line(n), file)
			case anchor != "" && isPage && !slices.Contains(known, anchor):
				t.Errorf("%s:%d: %s has no section #%s, but %s", d.path, d.line(n), file, anchor, strings.Join(known, ", "))
			}
		}
		each(d, func(n *ast.Link) {
			if target, ours := within(d.path, string(n.Destination)); ours {
				follow(n, target)
			}
		})
		each(d, func(n *ast.Image) {
			if target, ours := within(d.path, string(n.Destination)); ours {
				follow(n, target)
			}
		})
		each(d, func(n *ast.CodeSpan) {
			name := d.plain(n)
			if !page.MatchString(name) {
				return
			}
			// Text names a page from the root, or a neighbour of the page itself.
			if neighbour := path.Join(path.Dir(d.path), name); !exists(files, name) && exists(files, neighbour) {
				name = neighbour
			}
			follow(n, name)
		})
	}
	if links < 90 {
		t.Errorf("only %d links were found", links)
	}
}

// forMaintainers are pages that the site leaves out.
var forMaintainers = []string{"docs/openssf.md", "docs/testbed.md"}

// A reader finds every page, on the site and in the table of contents.
func TestEveryPageIsInTheContents(t *testing.T) {
	site, err := os.ReadFile(filepath.Join(root, "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	each(open(t, "docs/README.md"), func(n *ast.Link) {
		linked = append(linked, path.Join("docs", string(n.Destination)))
	})
	for _, name := range tracked(t, "docs/*.md") {
		if path.Dir(name) != "docs" || name == "docs/README.md" || slices.Contains(forMaintainers, name) {
			continue
		}
		if !strings.Contains(string(site), "  - "+path.Base(name)+"\n") {
			t.Errorf("mkdocs.yml lacks %s", name)
		}
		if !slices.Contains(linked, name) {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// within is the file that a link leads to, from the root and with its section; ours is false for another site.
func within(from, link string) (target string, ours bool) {
	if own, ok := strings.CutPrefix(link, repository); ok {
		return own, true
	}
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "", false
	}
	if u.Path == "" {
		return "#" + u.Fragment, true
	}
	target = path.Join(path.Dir(from), u.Path)
	if u.Fragment != "" {
		target += "#" + u.Fragment
	}
	return target, true
}

// exists tells whether git tracks a file, or files in a folder.
func exists(files []string, name string) bool {
	name = strings.TrimSuffix(name, "/")
	return slices.ContainsFunc(files, func(f string) bool { return f == name || strings.HasPrefix(f, name+"/") })
}

// notInAnchor is what GitHub leaves out of the anchor of a heading.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchors are the sections that a link can name, as GitHub makes them of the headings.
func (d document) anchors() []string {
	var all []string
	each(d, func(n *ast.Heading) {
		name := notInAnchor.ReplaceAllString(strings.ToLower(d.plain(n)), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	})
	return all
}
