// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/layout"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/tree"
)

// emptyLayout is the layout for a version in a folder that declares nothing.
func emptyLayout(t *testing.T, w *project.Workspace, dir string) *layout.Layout {
	t.Helper()
	old := &project.Version{Group: "cache.example.com", Version: "v1",
		Package: &project.Package{Path: "example.com/x/" + dir, Dir: dir}}
	l, _, err := layout.Decide(&project.Project{Root: w.Root, Workspace: w}, old,
		request.Request{To: "cache.example.com/v2", Old: request.OldKeep})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := tree.Put(dir, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCommandsWithPathsCanBeCopied(t *testing.T) {
	t.Parallel()
	if got, want := inFolder("make -C %s generate", "", "a b"), "make -C 'a b' generate"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheEntryInPROJECTIsRepeatedHoweverItIsWritten(t *testing.T) {
	t.Parallel()
	const (
		before = "domain: example.com\nresources:\n"
		entry  = "- api:\n    crdVersion: v1\n  controller: true\n  domain: example.com\n  group: cache\n  kind: " +
			"Memcached\n  path: example.com/x/api/v1\n  version: v1\n"
		second = "- api:\n    crdVersion: v1\n  domain: example.com\n  group: cache\n  kind: Memcached\n  path: " +
			"example.com/x/api/v2\n  version: v2\n"
		after = "version: \"3\"\n"
	)
	windows := strings.NewReplacer("\n", "\r\n").Replace
	quoted := strings.NewReplacer("version: v1\n", "version: \"v1\" # the first\n", "version: v2\n",
		"version: \"v2\" # the first\n").Replace
	bare := func(text string) string { return strings.TrimSuffix(text, "\n") }
	for name, test := range map[string]struct{ text, want string }{
		"as kubebuilder writes it":      {before + entry + after, before + entry + second + after},
		"with CRLF line endings":        {windows(before + entry + after), windows(before + entry + second + after)},
		"with quotes and a comment":     {before + quoted(entry) + after, before + quoted(entry+second) + after},
		"at the end, without a newline": {after + before + bare(entry), after + before + entry + bare(second)},
		"the controller first": {
			before + "- controller: true\n  domain: example.com\n  group: cache\n  kind: Memcached\n  version: v1\n",
			before + "- controller: true\n  domain: example.com\n  group: cache\n  kind: Memcached\n  version: v1\n- " +
				"domain: example.com\n  group: cache\n  kind: Memcached\n  version: v2\n",
		},
		"on one line": {before + "- {domain: example.com, group: cache, kind: Memcached, version: v1}\n",
			before + "- {domain: example.com, group: cache, kind: Memcached, version: v1}\n- {domain: example.com, " +
				"group: cache, kind: Memcached, version: v2}\n"},
		"all on one line": {"resources: [{domain: example.com, group: cache, kind: Memcached, version: v1}]\n",
			""},
		"with an odd spelling": {before + "- domain: example.com\n  group: cache\n  kind: Memcached\n  version: " +
			"\"v\\x31\"\n", ""},
	} {
		for _, file := range []string{"PROJECT", "api/PROJECT"} {
			t.Run(name+", "+file, func(t *testing.T) {
				t.Parallel()
				w := &project.Workspace{Root: t.TempDir(), Modules: []project.Module{{Path: "example.com/x", Dir: "."},
					{Path: "example.com/x/api", Dir: "api"}}}
				s := begin(emptyLayout(t, w, "api/v1"), nil)
				s.Request.Kinds = []string{"Memcached"}
				write(t, w.Root, map[string]string{file: test.text})
				if err := s.editProjectFile(); err != nil {
					t.Fatal(err)
				}
				if test.want == "" {
					if len(s.Blockers) != 1 || !strings.HasPrefix(s.Blockers[0].Where, file+":") {
						t.Errorf("blockers %v, want one in %s", s.Blockers, file)
					}
					return
				}
				if s.Changes[file] == nil || len(s.Blockers) > 0 {
					t.Fatalf("%s is not changed: %v, %v", file, s.Changes, s.Blockers)
				}
				if diff := cmp.Diff(test.want, string(s.Changes[file].Content)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestTheScriptOfTheModuleComesBeforeThatOfTheRoot(t *testing.T) {
	t.Parallel()
	w := &project.Workspace{Root: t.TempDir(),
		Modules: []project.Module{{Path: "example.com/x", Dir: "."}, {Path: "example.com/x/api", Dir: "my api"}}}
	s := begin(emptyLayout(t, w, "my api/v1"), nil)
	for _, test := range []struct{ file, want string }{
		{updateScript, "./hack/update-codegen.sh"},
		{"my api/" + updateScript, "(cd 'my api' && ./hack/update-codegen.sh)"},
	} {
		write(t, w.Root, map[string]string{test.file: "#!/bin/sh\n"})
		if diff := cmp.Diff([]string{test.want}, s.generators()); diff != "" {
			t.Errorf("with %s (-want +got):\n%s", test.file, diff)
		}
	}
}

func TestANewCRDIsListedNextToTheOldOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"resources:\n- bases/a.yaml\n- c.yaml\n": "resources:\n- bases/a.yaml\n- bases/b.yaml\n- c.yaml\n",
		"resources:\n- bases/a.yaml":             "resources:\n- bases/a.yaml\n- bases/b.yaml",
		"- \"bases/a.yaml\" # old\n":             "- \"bases/a.yaml\" # old\n- \"bases/b.yaml\" # old\n",
		"  - './bases/a.yaml'\r\n":               "  - './bases/a.yaml'\r\n  - './bases/b.yaml'\r\n",
		"- other/a.yaml\n":                       "",
	} {
		if got, ok := listBeside(text, "crd", "crd/bases/a.yaml",
			"crd/bases/b.yaml"); got != want || ok != (want != "") {
			t.Errorf("%q gives %q, %v; want %q", text, got, ok, want)
		}
	}
}
