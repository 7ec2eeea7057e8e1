// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"go/format"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

// succeeded applies a request that ends in another CRD, and asserts what holds after every such one. both is a
// test for the migrated tree, of the package in folder.
func succeeded(t *testing.T, dir, folder, both string,
	asked request.Request) (plan *Plan, before, after map[string]string) {
	t.Helper()
	before = fixture.Files(t, dir)
	plan = migrated(t, dir, asked).Plan
	after = fixture.Files(t, dir)
	for name, content := range before {
		if strings.Contains(name, "crd") && after[name] != content && filepath.Base(name) != "kustomization.yaml" {
			t.Errorf("%s has changed", name)
		}
	}
	fixture.Write(t, dir, map[string]string{folder + "/both_test.go": both})
	checkInvariants(t, dir, before, after)
	checkProject(t, dir)
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || done {
		t.Errorf("apply again: %v, %v; want nothing to do", done, err)
	}
	return plan, before, after
}

// acceptable asserts that an API server would accept a manifest of a CRD, and returns the name of the CRD.
func acceptable(t *testing.T, file, content string) string {
	t.Helper()
	d, err := crd.Parse(file, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	if problems := d.CreateProblems(t.Context()); len(problems) > 0 || len(d.Unknown) > 0 {
		t.Errorf("%s: %q %q", file, problems, d.Unknown)
	}
	return d.Name
}

// bothKinds returns the source of a test that registers the old and the new type in one scheme and expects one kind of
// each.
func bothKinds(pkg, add string, imports []string, kinds map[string]string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "package %s\n\nimport (\n\t\"testing\"\n\n\t\"k8s.io/apimachinery/pkg/runtime\"\n", pkg)
	for _, one := range imports {
		fmt.Fprintf(&out, "\t%s\n", one)
	}
	fmt.Fprintf(&out, ")\n\nfunc TestBothKindsAreRegistered(t *testing.T) {\n\tscheme := "+
		"runtime.NewScheme()\n\t%s\n\tfor want, object := range map[string]runtime.Object{\n", add)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&out, "\t\t%q: &%s{},\n", kind, kinds[kind])
	}
	out.WriteString("\t} {\n\t\tif found, _, err := scheme.ObjectKinds(object); err != nil || len(found) != 1 || " +
		"found[0].String() != want {\n\t\t\tt.Errorf(\"%T: %v, %v\", object, found, err)\n\t\t}\n\t}\n}\n")
	formatted, err := format.Source([]byte(out.String()))
	if err != nil {
		return out.String()
	}
	return string(formatted)
}

// guideSuccession is a migration of the guide's kind to another CRD.
type guideSuccession struct {
	to, kind string
	pkg      string // of the new kind
	created  []string
	crd      string
	golden   bool
}

func (test guideSuccession) run(t *testing.T) {
	t.Helper()
	const old = "operators.example.com/v1, Kind=CatalogSourceConfig"
	asked := guideRequest
	asked.To, asked.ToKind = test.to, test.kind
	kind := cmp.Or(test.kind, "CatalogSourceConfig")
	imports := []string{`operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"`}
	literal := "operatorsv1." + kind
	if test.pkg != "operators/v1" {
		imports, literal = append(imports, fmt.Sprintf(`created "github.com/test-org/test-operator/pkg/apis/%s"`,
			test.pkg)), "created."+kind
	}
	both := bothKinds("apis", "if err := AddToScheme(scheme); err != nil {\n\t\tt.Fatal(err)\n\t}", imports,
		map[string]string{old: "operatorsv1.CatalogSourceConfig", test.to + ", Kind=" + kind: literal})
	plan, before, after := succeeded(t, fixture.Repository(t, "guide"), "pkg/apis", both, asked)
	if diff := gocmp.Diff(test.created, newIn(before, after)); diff != "" {
		t.Errorf("new files (-want +got):\n%s", diff)
	}
	if got := acceptable(t, test.created[0], after[test.created[0]]); got != test.crd {
		t.Errorf("the new CRD is %s, want %s", got, test.crd)
	}
	if test.golden {
		content, err := plan.Encode()
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(test.crd, ".", "-")
		golden.Compare(t, "../testdata/golden/guide-plan-"+name+".yaml", string(content))
		goldenTree(t, "guide-tree-"+name+".txt", before, after)
	}
}

func TestTheGuidesKindIsMovedToAnotherGroupAndGivenAnotherName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]guideSuccession{
		"another name": {
			to: "operators.example.com/v1", kind: "CatalogSourceConfigurer", pkg: "operators/v1",
			created: []string{
				"deploy/crds/operators.example.com_catalogsourceconfigurers_crd.yaml",
				"pkg/apis/operators/v1/catalogsourceconfigurer.go",
				"pkg/apis/operators/v1/catalogsourceconfigurer_register.go",
				"pkg/apis/operators/v1/catalogsourceconfigurer_types.go",
			},
			crd: "catalogsourceconfigurers.operators.example.com", golden: true,
		},
		"another group, name and version": {
			to: "new-group.example.com/v1alpha1", kind: "CatalogSourceConfigurer", pkg: "newgroup/v1alpha1",
			created: []string{
				"deploy/crds/new-group.example.com_catalogsourceconfigurers_crd.yaml",
				"pkg/apis/addtoscheme_newgroup_v1alpha1.go", "pkg/apis/internal/shared/shared.go",
				"pkg/apis/newgroup/group.go", "pkg/apis/newgroup/v1alpha1/catalogsourceconfigurer.go",
				"pkg/apis/newgroup/v1alpha1/catalogsourceconfigurer_types.go",
				"pkg/apis/newgroup/v1alpha1/doc.go", "pkg/apis/newgroup/v1alpha1/register.go",
				"pkg/apis/newgroup/v1alpha1/zz_generated.deepcopy.go",
				"pkg/apis/shared/doc.go", "pkg/apis/shared/phase.go", "pkg/apis/shared/phase_types.go",
				"pkg/apis/shared/zz_generated.deepcopy.go",
			},
			crd: "catalogsourceconfigurers.new-group.example.com", golden: true,
		},
	} {
		if !compiles && test.to == guideRequest.From {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

func TestANewNameThatIsTakenIsABlockerWithItsPlace(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "guide")
	fixture.Append(t, dir, "pkg/apis/operators/v1/operatorgroup.go",
		"\n// CatalogSpec is taken.\ntype CatalogSpec struct{}\n")
	fixture.Write(t, dir, map[string]string{"deploy/crds/operators.example.com_catalogs_crd.yaml": "taken: true\n"})
	asked := guideRequest
	asked.To, asked.ToKind = asked.From, "Catalog"
	plan := outlined(t, dir, asked).Plan
	var got []string
	for _, blocker := range plan.Blockers {
		got = append(got, blocker.Where+": "+blocker.Text)
	}
	want := []string{
		"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml: the new CRD would be " +
			"deploy/crds/operators.example.com_catalogs_crd.yaml, which exists already",
		"pkg/apis/operators/v1/operatorgroup.go:19: CatalogSourceConfigSpec is to be copied as CatalogSpec, which is " +
			"here already: rename one of them first",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}
