// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/changeset"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

const (
	guideManifest    = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	guideManifestNow = "deploy/crds/operators.example.com_catalogsourceconfigs_crd.yaml"
)

// manifestsOf applies a request to the manifests alone. It copies and compiles no code.
func manifestsOf(t *testing.T, dir string, asked request.Request) changeset.Result {
	t.Helper()
	result, _, err := Manifests(t.Context(), decided.Layout(t, dir, asked), nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// kubebuilder's helm plugin makes a template of each CRD, with actions around it.
func TestAChartOfTheHelmPluginIsReportedWithTheCommandThatWritesIt(t *testing.T) {
	t.Parallel()
	const template = "dist/chart/templates/crd/memcacheds.cache.example.com.yaml"
	const again = "kubebuilder edit --plugins=helm/%s` after apply, which writes it again"
	for plugin, want := range map[string]string{
		"  helm.kubebuilder.io/v1-alpha: {}\n":                      "by hand, or run `" + fmt.Sprintf(again, "v1-alpha"),
		"  helm.kubebuilder.io/v2-alpha:\n    output: dist\n":       "or run `make build-installer && " + fmt.Sprintf(again, "v2-alpha"),
		"  grafana.kubebuilder.io/v1-alpha: {}\n":                   "add v1beta2 by hand",
		"  other.example.com/v1:\n    helm.kubebuilder.io: false\n": "add v1beta2 by hand",
	} {
		t.Run(strings.TrimSpace(plugin), func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "kubebuilder")
			before := fixture.Files(t, dir)
			fixture.Write(t, dir, map[string]string{
				"PROJECT": strings.Replace(before["PROJECT"], "projectName:", "plugins:\n"+plugin+"projectName:", 1),
				template: "{{- if .Values.crd.enable }}\n" + before["config/crd/bases/cache.example.com_memcacheds.yaml"] +
					"{{- end }}\n",
			})
			fixture.Commit(t, dir, "with a chart")
			var said []string
			for _, one := range manifestsOf(t, dir, decided.Memcached()).Findings {
				if one.Where == template {
					said = append(said, one.Text)
				}
			}
			if len(said) != 1 || !strings.HasSuffix(said[0], want) {
				t.Errorf("%s: %q, want one finding that ends in %q", template, said, want)
			}
		})
	}
}

func TestAManifestThatGitIgnoresIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	const ignored = "generated/crd.yaml"
	fixture.Write(t, dir, map[string]string{".gitignore": "/generated/\n", ignored: fixture.Files(t, dir)[guideManifest]})
	s := manifestsOf(t, dir, decided.Guide())
	found := ""
	for _, one := range s.Findings {
		if one.Where == ignored {
			found += one.Text
		}
	}
	if s.Changes[ignored] != nil || s.Changes[guideManifestNow] == nil || !strings.Contains(found, "git ignores it") {
		t.Errorf("changes %v, findings %v", s.Changes, s.Findings)
	}
}

func TestEveryManifestOfTheKindListsTheNewVersionAndNothingElseChanges(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	text := fixture.Files(t, dir)
	const other = "apiVersion: v1\nkind:   ConfigMap # stays as it is\n"
	group := text["deploy/crds/operators_v1_operatorgroup_crd.yaml"]
	fixture.Write(t, dir, map[string]string{
		"manifests/all.yaml": other + "---\n" + group + "---\n" + text[guideManifest],
		"chart/crd.yaml":     "{{ if .Values.crds }}\n" + text[guideManifest] + "{{ end }}\n",
		"chart/other.yaml":   "{{ if .Values.crds }}\n" + group + "{{ end }}\n",
		"stages/a-add.yaml":  project.StageMark + "\n" + text[guideManifest],
	})
	fixture.Write(t, dir, fixture.Archive(t, "testdata/uses-of-a-manifest.txtar"))
	fixture.Run(t, dir, "git", "add", ".")
	fixture.Write(t, dir, map[string]string{"saved.patch": guideManifest, "plan.yaml": "format: " + "api-migrator/v1" + "\nedits: [" +
		guideManifest + "]\n"})

	s := manifestsOf(t, dir, decided.Guide())

	if len(s.Blockers) > 0 {
		t.Fatalf("blockers: %v", s.Blockers)
	}
	got := map[string]string{}
	for name, change := range s.Changes {
		got[name] = string(change.Content)
	}
	upgraded := got[guideManifestNow]
	want := map[string]string{
		guideManifest:               "",
		guideManifestNow:            upgraded,
		"manifests/all.yaml":        other + "---\n" + group + "---\n" + upgraded,
		"deploy/kustomization.yaml": "resources:\n- crds/operators.example.com_catalogsourceconfigs_crd.yaml\n",
		"crds.go": strings.Replace(fixture.Read(t, dir, "crds.go"),
			"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml", guideManifestNow, 1),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	want["saved.patch"] = guideManifestNow // without git, every file may be a source; a plan never is
	got = map[string]string{}
	for name, change := range manifestsOf(t, dir, decided.Guide()).Changes {
		got[name] = string(change.Content)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files without git (-want +got):\n%s", diff)
	}
	d, err := crd.Parse("", []byte(upgraded))
	if err != nil {
		t.Fatal(err)
	}
	if problems := d.CreateProblems(t.Context()); len(problems) > 0 ||
		!strings.Contains(upgraded, "  - name: v2\n    served: true\n    storage: true\n") {
		t.Errorf("the API server says %q of\n%s", problems, upgraded)
	}
	places := map[string]bool{}
	for _, one := range s.Findings {
		places[one.Where] = true
	}
	if diff := cmp.Diff(map[string]bool{guideManifest: true, "manifests/all.yaml": true, "chart/crd.yaml": true,
		"README.md:1": true, "crds.go:10": true}, places); diff != "" {
		t.Errorf("places of findings (-want +got):\n%s\n%v", diff, s.Findings)
	}
}

func TestManifestsAreCalledAndStoredAsTheRequestSays(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	for naming, want := range map[crd.Naming]string{
		crd.Keep: guideManifest, crd.Canonical: "deploy/crds/operators.example.com_catalogsourceconfigs.yaml",
		crd.SDK: guideManifestNow,
	} {
		asked := decided.Guide()
		asked.CRDName, asked.Storage = string(naming), request.StorageOld
		s := manifestsOf(t, dir, asked)
		if change := s.Changes[want]; change == nil ||
			!strings.Contains(string(change.Content), "  - name: v2\n    served: true\n    storage: false\n") {
			t.Errorf("%s: %s is no manifest that adds v2 and stores v1 in %v", naming, want, s.Changes)
		}
	}
	asked := decided.Guide()
	asked.WithoutCRDs = true
	if s := manifestsOf(t, dir, asked); len(s.Changes) > 0 || len(s.Findings) > 0 {
		t.Errorf("without manifests: %v, %v", s.Changes, s.Findings)
	}
}

// oddJSON is a CRD of the guide's kind in a layout that no encoder writes.
const oddJSON = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "catalogsourceconfigs.operators.example.com"},
  "spec": {"group": "operators.example.com", "scope": "Namespaced",
    "names": {"kind": "CatalogSourceConfig", "plural": "catalogsourceconfigs"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}
}
`

func TestAManifestIsLeftToItsAuthor(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	fixture.Write(t, dir, map[string]string{"a.json": oddJSON})
	asked := decided.Guide()
	asked.Leave = []string{"a.json"}
	for name, one := range map[string]request.Request{
		"another version": asked,
		"another group": func() request.Request {
			other := asked
			other.To = "catalogs.example.com/v1"
			return other
		}(),
	} {
		s := manifestsOf(t, dir, one)
		if len(s.Blockers) > 0 || s.Changes["a.json"] != nil || len(s.Changes) == 0 ||
			!strings.Contains(fmt.Sprint(s.Findings), "a.json: left as it is, as you have asked (--leave): add ") {
			t.Errorf("%s: blockers %v, findings %v, changes %v", name, s.Blockers, s.Findings, s.Changes)
		}
	}
	asked.Leave = []string{"b.json"}
	_, err := asked.WithDefaults().Check(typed.Load(t, dir))
	fixture.WantProblem(t, err, "b.json, which --leave names, has no CustomResourceDefinition of CatalogSourceConfig")
}

func TestGeneratedManifestsAreToldApartFromSources(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	source := fixture.Read(t, dir, guideManifest)
	fixture.Write(t, dir, map[string]string{
		"Makefile": "OUT ?= dist\nKUSTOMIZE ?= $(LOCALBIN)/kustomize\n\n.PHONY: installer\ninstaller: ## Bundle.\n" +
			"\tmkdir -p $(OUT)\n\t$(KUSTOMIZE) build deploy > $(OUT)/install.yaml\n",
		"hack/jsonnet.sh":    "#!/bin/sh\nset -e\njsonnet -J vendor -m build main.jsonnet\n",
		"dist/install.yaml":  source,
		"build/crd.json":     oddJSON,
		"deploy/header.yaml": "# Code generated by dump. DO NOT EDIT.\n" + source,
	})
	s := manifestsOf(t, dir, decided.Guide())
	if len(s.Blockers) > 0 || s.Changes["build/crd.json"] != nil || s.Changes[guideManifestNow] == nil ||
		s.Changes["dist/install.yaml"] == nil || s.Changes["deploy/header.yaml"] == nil {
		t.Errorf("blockers %v, changes %v", s.Blockers, s.Changes)
	}
	found := map[string]string{}
	for _, one := range s.Findings {
		found[one.Where] += one.Text + "\n"
	}
	for file, want := range map[string]string{
		"dist/install.yaml": "generated, and changed all the same: `make installer` writes it (kustomize); run it after " +
			"apply\n",
		"build/crd.json": "left as it is, because it is generated: `./hack/jsonnet.sh` writes it (jsonnet), and has to " +
			"write it again. It cannot be changed here: ",
		"deploy/header.yaml": "generated, and changed all the same: its header says that it is generated; run its " +
			"generator after apply\n",
	} {
		if !strings.Contains(found[file], want) {
			t.Errorf("the findings about %s are %q, want %q", file, found[file], want)
		}
	}
	if strings.Contains(found[guideManifest], "generated") {
		t.Errorf("the source counts as generated: %s", found[guideManifest])
	}
	commands, _ := Commands(decided.Layout(t, dir, decided.Guide()), s.Changes)
	if diff := cmp.Diff([]string{"./hack/jsonnet.sh", "make installer"}, commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestAGeneratedManifestWithoutASourceIsNotTakenForOne(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	const header = "# DO NOT EDIT: written from the chart.\n"
	fixture.Write(t, dir, map[string]string{guideManifest: header + fixture.Read(t, dir, guideManifest)})
	if s := manifestsOf(t, dir, decided.Guide()); !strings.Contains(fmt.Sprint(s.Findings),
		"no other manifest of the kind is its source, and its next run would remove v2 again") {
		t.Errorf("findings: %v", s.Findings)
	}
	fixture.Write(t, dir, map[string]string{guideManifest: strings.Replace(fixture.Read(t, dir, guideManifest),
		"version: v1\n", "version: v1alpha1\n", 1)})
	if s := manifestsOf(t, dir, decided.Guide()); len(s.Blockers) == 0 {
		t.Errorf("no manifest of the kind gets the version, and nothing blocks the plan: %v", s.Findings)
	}
}

func TestAManifestInAListIsFoundAndChanged(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	source := strings.TrimSuffix(fixture.Read(t, dir, guideManifest), "\n")
	fixture.Write(t, dir, map[string]string{
		guideManifest: "kind: List\napiVersion: v1\nitems:\n- " + strings.ReplaceAll(source, "\n", "\n  ") + "\n",
	})
	s := manifestsOf(t, dir, decided.Guide())
	if change := s.Changes[guideManifest]; len(s.Blockers) > 0 || change == nil ||
		!strings.Contains(string(change.Content), "    - name: v2\n      served: true\n      storage: true\n") {
		t.Errorf("blockers %v, changes %v", s.Blockers, s.Changes)
	}
}

func TestManifestsThatCannotHaveTheVersionBlockThePlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(text string) map[string]string
		place  string
		want   string
	}{
		"a schema that is not structural": {
			func(text string) map[string]string {
				return map[string]string{guideManifest: strings.Replace(text, "minimum: 0\n",
					"anyOf: [{type: string}]\n", 1)}
			}, guideManifest, "the API server would reject the CRD: ",
		},
		"no version to copy": {
			func(text string) map[string]string {
				return map[string]string{guideManifest: strings.Replace(text, "version: v1\n",
					"version: v1alpha1\n", 1)}
			}, guideManifest, "it has no version v1",
		},
		"JSON in a layout of its own": {
			func(string) map[string]string { return map[string]string{"a.json": oddJSON} }, "a.json",
			"it is JSON in a layout that cannot be kept: write it with one field on each line. To change the file by " +
				"hand: --leave a.json",
		},
		"a name that is taken": {
			func(string) map[string]string { return map[string]string{guideManifestNow: "kind: Other\n"} },
			guideManifest, "which exists: use --crd-name keep",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture.Repository(t, "guide")
			fixture.Write(t, dir, test.change(fixture.Read(t, dir, guideManifest)))
			s := manifestsOf(t, dir, decided.Guide())
			if len(s.Blockers) == 0 || s.Blockers[0].Where != test.place ||
				!strings.Contains(s.Blockers[0].Text, test.want) {
				t.Errorf("blockers %v, want one at %s with %q", s.Blockers, test.place, test.want)
			}
		})
	}
}
