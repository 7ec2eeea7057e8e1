// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/split"
)

func TestATreeThatIsNotThePlansIsRefusedAndLeftAlone(t *testing.T) {
	dir := fixture(t, "guide")
	plan := planned(t, dir, guideRequest)
	group := filepath.Join(dir, "pkg/apis/operators/v1/operatorgroup.go")
	for name, test := range map[string]struct {
		change func(t *testing.T, plan *Plan)
		dirty  bool
		want   string
	}{
		"uncommitted changes": {
			change: func(t *testing.T, _ *Plan) { appendTo(t, group, "\n// Changed.\n") },
			want:   "uncommitted changes: pkg/apis/operators/v1/operatorgroup.go",
		},
		"code that has changed since": {
			change: func(t *testing.T, _ *Plan) { appendTo(t, group, "\n// Changed.\n") },
			dirty:  true,
			want:   "has changed since the plan was made",
		},
		"a plan that was edited": {
			change: func(_ *testing.T, plan *Plan) { plan.Declarations[0].To = "stay" },
			want:   "not what its request gives",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, dir, "git", "checkout", "-q", ".")
			edited := *plan
			edited.Declarations = slices.Clone(plan.Declarations)
			test.change(t, &edited)
			before := filesOf(t, dir)
			_, err := Apply(t.Context(), dir, &edited, test.dirty)
			wantProblem(t, err, test.want)
			if diff := cmp.Diff(before, filesOf(t, dir)); diff != "" {
				t.Errorf("a refused plan changed the tree:\n%s", diff)
			}
		})
	}
}

func TestRequestsThatCannotBeMeantAreRefused(t *testing.T) {
	dir := fixture(t, "guide")
	with := func(change func(*request.Request)) request.Request {
		asked := guideRequest
		asked.Kinds = slices.Clone(asked.Kinds)
		change(&asked)
		return asked
	}
	for name, test := range map[string]struct {
		asked request.Request
		want  string
	}{
		"unknown version": {with(func(r *request.Request) { r.From = "operators.example.com/v7" }),
			"no package defines the API version"},
		"unknown kind": {with(func(r *request.Request) { r.Kinds[0] = "Catalog" }),
			"has no kind Catalog; it has: CatalogSourceConfig, OperatorGroup"},
		"version exists": {with(func(r *request.Request) { r.To = r.From }), "exists already"},
		"no version": {with(func(r *request.Request) { r.To = "operators.example.com/two" }),
			"is not a GROUP/VERSION"},
		"unknown declaration": {
			with(func(r *request.Request) { r.Assign = map[string]split.Destination{"Nothing": split.Stay} }),
			"no declaration is named Nothing",
		},
		"assignment of an anchor": {
			with(func(r *request.Request) { r.Assign = map[string]split.Destination{"SchemeBuilder": split.Shared} }),
			"cannot be assigned",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(t.Context(), dir, test.asked)
			wantProblem(t, err, test.want)
		})
	}
}

func TestProjectsThatCannotBeReadAreRefused(t *testing.T) {
	const controller = "pkg/controller/operatorgroup/operatorgroup_controller.go"
	for name, test := range map[string]struct {
		file, old, new string
		want           string
	}{
		"code that does not compile": {controller, "group.EnsureFinalizer()", "group.Ensure()",
			"does not compile: " + controller},
		"a cyclic import": {
			"pkg/apis/operators/v1/phase.go", "import (",
			"import (\n\t_ \"github.com/test-org/test-operator/pkg/controller/operatorgroup\"", "import cycle",
		},
		"a dot import": {controller, "\"github.com/test-org/test-operator/pkg/apis/operators/v1\"",
			". \"github.com/test-org/test-operator/pkg/apis/operators/v1\"", "with a dot"},
		"a dot import next to a named one": {controller, "\"github.com/test-org/test-operator/pkg/apis/operators/v1\"",
			"\"github.com/test-org/test-operator/pkg/apis/operators/v1\"\n" +
				"\t. \"github.com/test-org/test-operator/pkg/apis/operators/v1\"", "with a dot"},
		"no manifest": {"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml", "kind: CatalogSourceConfig\n",
			"kind: Another\n", "no manifest of a CustomResourceDefinition for CatalogSourceConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, "guide")
			file := filepath.Join(dir, test.file)
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			content = bytes.Replace(content, []byte(test.old), []byte(test.new), 1)
			switch name {
			case "a dot import":
				content = bytes.ReplaceAll(content, []byte("v1.P"), []byte("P"))
				content = bytes.ReplaceAll(content, []byte("v1.NewP"), []byte("NewP"))
				content = bytes.ReplaceAll(content, []byte("*v1.O"), []byte("*O"))
			case "a dot import next to a named one":
				content = bytes.ReplaceAll(content, []byte("v1.P"), []byte("P"))
			}
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err = Make(t.Context(), dir, guideRequest)
			wantProblem(t, err, test.want)
		})
	}
}

func TestAKindThatIsGeneratedIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	const name = "api/v1/memcached_types.go"
	write(t, dir, map[string]string{name: "// Code generated by a test. DO NOT EDIT.\n\n" + filesOf(t, dir)[name]})
	_, err := Make(t.Context(), dir, memcachedRequest)
	wantProblem(t, err, "Memcached is declared in "+name+", which is generated")
}
