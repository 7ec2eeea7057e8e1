// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// emptyLayout is the layout for a version in a folder that declares nothing.
func emptyLayout(t *testing.T, w *project.Workspace, dir string) *layout.Layout {
	t.Helper()
	return emptyLayoutTo(t, w, dir, "cache.example.com/v2")
}

// emptyLayoutTo is emptyLayout for another new version.
func emptyLayoutTo(t *testing.T, w *project.Workspace, dir, to string) *layout.Layout {
	t.Helper()
	old := &project.Version{Group: "cache.example.com", Version: "v1",
		Package: &project.Package{Path: "example.com/x/" + dir, Dir: dir}}
	l, _, err := layout.Decide(&project.Project{Root: w.Root, Workspace: w}, old,
		request.Request{To: to, Old: request.OldKeep})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCommandsWithPathsCanBeCopied(t *testing.T) {
	t.Parallel()
	if got, want := inFolder("make -C %s generate", "", "a b"), "make -C 'a b' generate"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhatLinesOfMakefilesWrite(t *testing.T) {
	t.Parallel()
	const dist = "dist/install.yaml"
	for text, want := range map[string]recipe{
		"build-installer: manifests generate kustomize ## Generate.\n\t$(KUSTOMIZE) build config/default > dist/install.yaml\n": {
			run: "make build-installer", tool: "kustomize", to: dist},
		"bundle:\n\thelm template chart | tee dist/install.yaml\n": {run: "make bundle", tool: "helm", to: dist},
		"DIST = dist\nyaml:\n\tkustomize build \\\n\t\tconfig -o ${DIST}/install.yaml\n": {run: "make yaml",
			tool: "kustomize", to: dist, names: everything},
		"helm:\n\t$(KUSTOMIZE) build config/default | $(HELMIFY)\n": {run: "make helm", tool: "helmify", to: "chart",
			names: everything},
		"helm:\n\tkustomize build config | bin/helmify -crd-dir charts/op\n": {run: "make helm", tool: "helmify",
			to: "charts/op", names: everything},
		"chart:\n\tcp -f config/crd/bases/*.yaml charts/op/crds/\n": {run: "make chart", tool: "cp", to: "charts/op/crds",
			names: "*.yaml"},
		"chart:\n\tcp -r config/crd/bases charts/op/crds\n": {run: "make chart", tool: "cp", to: "charts/op/crds",
			names: everything},
		"bundle: manifests\n\t$(KUSTOMIZE) build config/manifests | $(OPERATOR_SDK) generate bundle $(FLAGS)\n": {
			run: "make bundle", tool: "operator-sdk", to: "bundle", names: everything},
		"manifests:\n\t$(CONTROLLER_GEN) crd paths=./... output:stdout > dist/install.yaml\n": {}, // after Go types
		"deploy:\n\t$(KUSTOMIZE) build config/default | kubectl apply -f - 2>/dev/null\n":     {},
		"yaml:\n\tcd config && kustomize build > install.yaml\n":                              {},
		"yaml:\n\tkustomize build config > $(UNKNOWN)/install.yaml\n":                         {},
		"dist/install.yaml: config\n\tkustomize build config > $@\n": {run: "make dist/install.yaml", tool: "kustomize",
			to: dist},
		"yaml:\n\tjsonnet -J vendor main.jsonnet -o dist/install.yaml\n": {run: "make yaml", tool: "jsonnet", to: dist},
		"yaml:\n\tjsonnet --multi=dist main.jsonnet\n": {run: "make yaml", tool: "jsonnet",
			to: "dist", names: everything},
		"dist/install.yaml:\n\ttrue\n\n%.yaml: %.jsonnet\n\tjsonnet $< > $@\n": {}, // which files these are is not known
		"VERSION := v1\nyaml:\n\tkustomize build config/$(VERSION) > dist/install-$(VERSION).yaml\n": {run: "make yaml",
			tool: "kustomize", to: "dist/install-v1.yaml"},
		"OUT ?= dist\n$(OUT)/install.yaml: config\n\tkustomize build config > '$(@)'\n": {run: "make dist/install.yaml",
			tool: "kustomize", to: dist},
		"yaml:\n\tkustomize build config > $(CURDIR)/dist/install.yaml\n": {run: "make yaml", tool: "kustomize", to: dist},
		"OUT := $(shell pwd)/dist\nyaml:\n\tkustomize build config > \"${OUT}/install.yaml\"\n": {run: "make yaml",
			tool: "kustomize", to: dist},
		"yaml:\n\tkustomize build config > $$(pwd)/dist/install.yaml\n": {run: "make yaml", tool: "kustomize", to: dist},
		"ROOT := $(shell dirname $(abspath $(lastword $(MAKEFILE_LIST))))\nyaml:\n\tkustomize build config > " +
			"$(ROOT)/dist/install.yaml\n": {run: "make yaml", tool: "kustomize", to: dist},
	} {
		got := append(makeRecipes(".", text), recipe{})[0]
		if got != want {
			t.Errorf("%s writes %+v, want %+v", text, got, want)
		}
	}
	for file, want := range map[string]bool{"charts/op/crds/a.yaml": true, "charts/op/crds/a.json": false,
		"charts/op/crds/more/a.yaml": false, "charts/op/a.yaml": false} {
		if got := (recipe{to: "charts/op/crds", names: "*.yaml"}).writes(file); got != want {
			t.Errorf("a copy of *.yaml writes %s: %v, want %v", file, got, want)
		}
	}
	for text, want := range map[string]bool{"# Code generated by x. DO NOT EDIT.\na: b\n": true,
		"---\n# auto-generated\na: b\n": true, "a: b\n# DO NOT EDIT\n": false, "# generates things\na: b\n": false} {
		if got := project.SaysGenerated(text); got != want {
			t.Errorf("%q says that it is generated: %v, want %v", text, got, want)
		}
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
		"of version 2": {
			"domain: example.com\nrepo: example.com/x\nresources:\n- group: cache\n  kind: Memcached\n  version: v1\n" +
				"- group: apps\n  kind: Memcached\n  version: v1\nversion: \"2\"\n",
			"domain: example.com\nrepo: example.com/x\nresources:\n- group: cache\n  kind: Memcached\n  version: v1\n" +
				"- group: cache\n  kind: Memcached\n  version: v2\n" +
				"- group: apps\n  kind: Memcached\n  version: v1\nversion: \"2\"\n",
		},
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
				fixture.Write(t, w.Root, map[string]string{file: test.text})
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
		fixture.Write(t, w.Root, map[string]string{test.file: "#!/bin/sh\n"})
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
