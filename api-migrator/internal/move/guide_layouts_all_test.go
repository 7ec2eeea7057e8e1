// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all || long

package move

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// guideLayouts are the folders in which kubebuilder would have put the version of the guide's project: in a project
// with a single group, with several, and with the API in a module of its own.
var guideLayouts = map[string]struct {
	version string // the folder of v1
	module  string // the folder of the API's module
	// run says whether the test also writes the outcome and runs its tests. Planning compiles it in each layout, and
	// the files differ only in import paths.
	run bool
}{
	"single group":  {"api/v1", ".", true},
	"multi group":   {"api/operators/v1", ".", false},
	"apis":          {"apis/operators/v1", ".", false},
	"nested module": {"api/v1", "api", true},
}

const (
	guideModule  = "github.com/test-org/test-operator"
	guideVersion = "pkg/apis/operators/v1"
)

// asKubebuilder is the guide's project as kubebuilder would have laid it out: the same kinds, phases and reconcilers.
func asKubebuilder(t *testing.T, layout string) string {
	t.Helper()
	version, module := guideLayouts[layout].version, guideLayouts[layout].module
	dir := fixture.Repository(t, "guide")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/guide-as-kubebuilder.txtar"))
	moveFolder(t, dir, guideVersion, version)
	moveFolder(t, dir, "pkg/controller", "internal/controller")
	fixture.Run(t, dir, "git", "rm", "-qr", "pkg", version+"/doc.go", "deploy/crds/operators_v1_catalogsourceconfig_cr.yaml")
	bases := "config/crd/bases/operators.example.com_"
	for from, to := range map[string]string{
		version + "/register.go":                                version + "/groupversion_info.go",
		"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml": bases + "catalogsourceconfigs.yaml",
		"deploy/crds/operators_v1_operatorgroup_crd.yaml":       bases + "operatorgroups.yaml",
	} {
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(to)), 0o755); err != nil {
			t.Fatal(err)
		}
		fixture.Run(t, dir, "git", "mv", from, to)
	}
	changed := map[string]string{}
	markers := strings.NewReplacer(
		"// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object\n\n",
		"// +kubebuilder:object:root=true\n\n",
		"// +k8s:deepcopy-gen=package,register\n", "// +kubebuilder:object:generate=true\n",
		"// +k8s:openapi-gen=true\n", "",
		"SchemeGroupVersion", "GroupVersion",
		"scheme.Builder{GroupVersion: SchemeGroupVersion}\n",
		"scheme.Builder{GroupVersion: GroupVersion}\n\n\t// AddToScheme adds the types of this version to a "+
			"scheme.\n\tAddToScheme = SchemeBuilder.AddToScheme\n",
	)
	before := fixture.Files(t, dir)
	for name, content := range before {
		if path.Dir(name) == version {
			changed[name] = markers.Replace(content)
		}
	}
	changed["PROJECT"] = "domain: example.com\nlayout:\n- go.kubebuilder.io/v4\nprojectName: test-operator\nrepo: " +
		guideModule + "\nresources:\n" +
		guideEntry("CatalogSourceConfig", version) + guideEntry("OperatorGroup", version) + "version: \"3\"\n"
	if module != "." {
		api := guideModule + "/" + module
		changed[module+"/go.mod"] = strings.Replace(before["go.mod"], "module "+guideModule+"\n", "module "+api+"\n", 1)
		changed[module+"/go.sum"] = before["go.sum"]
		changed["go.mod"] = before["go.mod"] + "\nrequire " + api + " v0.0.0-00010101000000-000000000000\n\nreplace " +
			api + " => ./" + module + "\n"
	}
	fixture.Write(t, dir, changed)
	fixture.Run(t, dir, "gofmt", "-w", ".")
	fixture.Commit(t, dir, "as kubebuilder lays it out")
	return dir
}

func guideEntry(kind, version string) string {
	return "- api:\n    crdVersion: v1beta1\n    namespaced: true\n  domain: example.com\n  group: operators\n  kind: " + kind +
		"\n  path: " + guideModule + "/" + version + "\n  version: v1\n"
}

func TestTheGuidesProjectIsMigratedInEachLayoutOfKubebuilder(t *testing.T) {
	t.Parallel()
	for name, layout := range guideLayouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := asKubebuilder(t, name)
			before := fixture.Files(t, dir)
			outcome := checkOutcome(t, dir, guideRequest)
			after := outcome.files(before)

			group := path.Dir(layout.version)
			want := []string{
				group + "/internal/shared/shared.go",
				group + "/shared/doc.go", group + "/shared/phase.go", group + "/shared/phase_types.go", group +
					"/shared/zz_generated.deepcopy.go",
				group + "/v2/catalogsourceconfig.go", group + "/v2/catalogsourceconfig_types.go", group +
					"/v2/groupversion_info.go", group + "/v2/zz_generated.deepcopy.go",
			}
			if diff := cmp.Diff(want, newIn(before, after)); diff != "" {
				t.Errorf("new files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{layout.version + "/shared.go"}, newIn(after, before)); diff != "" {
				t.Errorf("removed files (-want +got):\n%s", diff)
			}
			const crds = "config/crd/bases/operators.example.com_"
			if before[crds+"operatorgroups.yaml"] != after[crds+"operatorgroups.yaml"] {
				t.Error("the CRD of the kind that stays has changed")
			}
			for file, part := range map[string]string{
				"PROJECT":                          "path: " + guideModule + "/" + group + "/v2\n  version: v2\n",
				"cmd/main.go":                      "utilruntime.Must(operatorsv2.AddToScheme(scheme))",
				crds + "catalogsourceconfigs.yaml": "name: v2",
				"internal/controller/catalogsourceconfig/catalogsourceconfig_controller.go": "shared.PhaseRunning",
				"internal/controller/operatorgroup/operatorgroup_controller.go":             "shared.NewPhase(shared.PhaseFailed, why)",
			} {
				if !strings.Contains(after[file], part) {
					t.Errorf("%s lacks %q:\n%s", file, part, after[file])
				}
			}

			if !layout.run {
				return
			}
			if err := outcome.write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(after, fixture.Files(t, dir)); diff != "" {
				t.Errorf("something else was written than planned (-planned +written):\n%s", diff)
			}
			checkInvariants(t, dir, before, after)
			if layout.module != "." {
				checkProject(t, filepath.Join(dir, layout.module))
			}
			if done, err := Apply(t.Context(), dir, outcome.Plan, false); err != nil || done {
				t.Errorf("apply again: %v, %v; want nothing to do", done, err)
			}
		})
	}
}

// With the tag long, each request is planned in each layout.
func TestTheGuidesProjectGetsAnotherGroupOrNameInLayoutsOfKubebuilder(t *testing.T) {
	t.Parallel()
	for layout, what := range map[string]string{"single group": "both", "multi group": "group",
		"nested module": "name"} {
		t.Run(layout+", "+what, func(t *testing.T) {
			t.Parallel()
			checkSuccession(t, asKubebuilder(t, layout), guideSuccessors[what])
		})
	}
}

// guideSuccessors are another group, another name, and both, with options that differ from the default.
var guideSuccessors = map[string]request.Request{
	"group": elsewhereWith("catalogs.example.com/v1", "",
		options{request.SharedNewest, request.OldKeep, request.UnexportedExport}, guideRequest),
	"name": elsewhereWith("operators.example.com/v1", "Catalog",
		options{request.SharedPackage, request.OldKeep, request.UnexportedInternal}, guideRequest),
	"both": elsewhereWith("catalogs.example.com/v2", "Catalog",
		options{request.SharedDuplicate, request.OldWrap, request.UnexportedExport}, guideRequest),
}
