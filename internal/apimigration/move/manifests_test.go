// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/artifacts"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/changeset"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

const (
	guideManifest    = "deploy/crds/operators_v1_catalogsourceconfig_crd.yaml"
	guideManifestNow = "deploy/crds/operators.example.com_catalogsourceconfigs_crd.yaml"
)

// checkManifests asserts that versions and manifests agree, and that what is about other kinds is as it was.
func checkManifests(t *testing.T, dir string, before, after map[string]string) {
	t.Helper()
	p, err := project.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	violations, err := p.Violations()
	if err != nil || len(violations) > 0 {
		t.Errorf("violations %q, %v", violations, err)
	}
	for _, other := range []string{"deploy/crds/operators_v1_operatorgroup_crd.yaml",
		"deploy/crds/operators_v1_catalogsourceconfig_cr.yaml", "config/crd/bases/cache.example.com_backups.yaml"} {
		_, bothMoved := after["deploy/crds/operators.example.com_operatorgroups_crd.yaml"]
		if after[other] != before[other] && !bothMoved {
			t.Errorf("%s has changed:\n%s", other, cmp.Diff(before[other], after[other]))
		}
	}
}

// manifestsOf applies a request to the manifests alone: no code is copied and none is compiled.
func manifestsOf(t *testing.T, dir string, asked request.Request) changeset.Result {
	t.Helper()
	result, _, err := artifacts.Manifests(t.Context(), layoutOn(t, dir, asked), nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestAManifestThatGitIgnoresIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	const ignored = "generated/crd.yaml"
	write(t, dir, map[string]string{".gitignore": "/generated/\n", ignored: filesOf(t, dir)[guideManifest]})
	s := manifestsOf(t, dir, guideRequest)
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
	dir := fixture(t, "guide")
	text := filesOf(t, dir)
	const other = "apiVersion: v1\nkind:   ConfigMap # stays as it is\n"
	group := text["deploy/crds/operators_v1_operatorgroup_crd.yaml"]
	write(t, dir, map[string]string{
		"manifests/all.yaml":        other + "---\n" + group + "---\n" + text[guideManifest],
		"deploy/kustomization.yaml": "resources:\n- crds/operators_v1_catalogsourceconfig_crd.yaml\n",
		"crds.go": "package crds\n\nimport _ \"embed\"\n\n// CRD is the " +
			"definition.\n//\n//go:embed deploy/crds/operators_v1_catalogsourceconfig_crd.yaml\nvar CRD " +
			"[]byte\n\nconst name = \"operators_v1_catalogsourceconfig_crd.yaml\"\n",
		"chart/crd.yaml":    "{{ if .Values.crds }}\n" + text[guideManifest] + "{{ end }}\n",
		"chart/other.yaml":  "{{ if .Values.crds }}\n" + group + "{{ end }}\n",
		"stages/a-add.yaml": project.StageMark + "\n" + text[guideManifest],
		"README.md":         "See https://example.com/deploy/crds/operators_v1_catalogsourceconfig_crd.yaml.\n",
	})
	run(t, dir, "git", "add", ".")
	write(t, dir, map[string]string{"saved.patch": guideManifest, "plan.yaml": "format: " + Format + "\nedits: [" +
		guideManifest + "]\n"})

	s := manifestsOf(t, dir, guideRequest)

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
		"crds.go": strings.Replace(readText(t, dir, "crds.go"),
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
	for name, change := range manifestsOf(t, dir, guideRequest).Changes {
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

func readText(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestManifestsAreCalledAndStoredAsTheRequestSays(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	for naming, want := range map[crd.Naming]string{
		crd.Keep: guideManifest, crd.Canonical: "deploy/crds/operators.example.com_catalogsourceconfigs.yaml",
		crd.SDK: guideManifestNow,
	} {
		asked := guideRequest
		asked.CRDName, asked.Storage = string(naming), request.StorageOld
		s := manifestsOf(t, dir, asked)
		if change := s.Changes[want]; change == nil ||
			!strings.Contains(string(change.Content), "  - name: v2\n    served: true\n    storage: false\n") {
			t.Errorf("%s: %s is no manifest that adds v2 and stores v1 in %v", naming, want, s.Changes)
		}
	}
	asked := guideRequest
	asked.WithoutCRDs = true
	if s := manifestsOf(t, dir, asked); len(s.Changes) > 0 || len(s.Findings) > 0 {
		t.Errorf("without manifests: %v, %v", s.Changes, s.Findings)
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
		"JSON": {
			func(string) map[string]string {
				return map[string]string{
					"a.json": `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"group": "operators.example.com", "names": {"kind": "CatalogSourceConfig"}}}`,
				}
			}, "a.json", "it is JSON",
		},
		"a name that is taken": {
			func(string) map[string]string { return map[string]string{guideManifestNow: "kind: Other\n"} },
			guideManifest, "which exists: use --crd-name keep",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, "guide")
			write(t, dir, test.change(readText(t, dir, guideManifest)))
			s := manifestsOf(t, dir, guideRequest)
			if len(s.Blockers) == 0 || s.Blockers[0].Where != test.place ||
				!strings.Contains(s.Blockers[0].Text, test.want) {
				t.Errorf("blockers %v, want one at %s with %q", s.Blockers, test.place, test.want)
			}
		})
	}
}

func TestAManifestThatHasChangedSinceThePlanIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "guide")
	plan := planned(t, dir, guideRequest)
	appendTo(t, filepath.Join(dir, guideManifest), "# changed\n")
	before := filesOf(t, dir)
	_, err := Apply(t.Context(), dir, plan, true)
	wantProblem(t, err, "or a manifest has changed since the plan was made")
	if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
		t.Errorf("a refused plan changed the tree:\n%s", diff)
	}
}

func TestAThirdVersionStoresOrDoesNotAsTheRequestSays(t *testing.T) {
	t.Parallel()
	const manifest = "config/crd/bases/cache.example.com_memcacheds.yaml"
	alphaTypes := archived(t, "third-version")["api/v1alpha1/types.go"]
	for storage, want := range map[string]struct{ alpha, manifest string }{
		request.StorageNew: {strings.Replace(alphaTypes, "// +kubebuilder:storageversion\n", "", 1),
			"- name: v1beta2\n    served: true\n    storage: true\n"},
		request.StorageOld: {alphaTypes, "- name: v1alpha1\n    served: true\n    storage: true\n"},
	} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, "kubebuilder")
			crd := strings.Replace(readText(t, dir, manifest), "storage: true", "storage: false", 1) +
				"  - name: v1alpha1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n      " +
				"  type: object\n"
			write(t, dir, map[string]string{"api/v1alpha1/types.go": alphaTypes, manifest: crd})
			commit(t, dir, "a third version")
			asked := memcachedRequest
			asked.Storage = storage
			if done, err := Apply(t.Context(), dir, planned(t, dir, asked), false); err != nil || !done {
				t.Fatalf("apply: %v, %v", done, err)
			}
			after := filesOf(t, dir)
			checkManifests(t, dir, after, after) // exactly one version is marked, and the manifest agrees
			if diff := cmp.Diff(want.alpha, after["api/v1alpha1/types.go"]); diff != "" {
				t.Errorf("the third version (-want +got):\n%s", diff)
			}
			if !strings.Contains(after[manifest], want.manifest) ||
				!strings.Contains(after[manifest], "  - name: v1beta2\n    served: true\n") {
				t.Errorf("the manifest lacks %q:\n%s", want.manifest, after[manifest])
			}
			// The new version is a copy of the one that the kind moves from, and not of the one that is stored.
			if n := strings.Count(after[manifest], "x-kubernetes-preserve-unknown-fields: true"); n != 2 {
				t.Errorf("%d versions have the schema of v1, want 2:\n%s", n, after[manifest])
			}
		})
	}
}
