// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdgen "sigs.k8s.io/controller-tools/pkg/crd"
	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestEveryCombinationOfOptionsInEachLayout(t *testing.T) {
	multi := fixture.Repository(t, "kubebuilder")
	moveFolder(t, multi, "api/v1", "api/cache/v1")
	for name, project := range map[string]struct {
		dir   string
		asked request.Request
	}{
		"guide":        {fixture.Repository(t, "guide"), guideRequest},
		"single group": {fixture.Repository(t, "kubebuilder"), memcachedRequest},
		"multi group":  {multi, memcachedRequest},
	} {
		for _, one := range everyOption() {
			t.Run(name+","+one.String(), func(t *testing.T) {
				t.Parallel()
				checkOutcome(t, project.dir, one.of(project.asked))
			})
		}
	}
}

// everyOption returns every combination of options.
func everyOption() (all []options) {
	for _, shared := range []string{request.SharedPackage, request.SharedNewest, request.SharedDuplicate} {
		for _, old := range []string{request.OldKeep, request.OldWrap, request.OldAlias, request.OldRemove} {
			for _, unexported := range []string{request.UnexportedInternal, request.UnexportedExport} {
				all = append(all, options{shared, old, unexported})
			}
		}
	}
	return all
}

// Conversion strategy None loses nothing where both versions have the same fields, as controller-gen sees them.
func TestControllerGenSeesTheSameFieldsInBothVersions(t *testing.T) {
	for _, old := range []string{request.OldWrap, request.OldAlias} {
		t.Run(old, func(t *testing.T) {
			dir := fixture.Repository(t, "kubebuilder")
			outcome := checkOutcome(t, dir, options{request.SharedNewest, old,
				request.UnexportedInternal}.of(memcachedRequest))
			if err := outcome.write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			versions := map[string]string{} // name → schema
			for _, version := range generatedCRD(t, dir, "cache.example.com_memcacheds.yaml").Spec.Versions {
				if version.Storage != (version.Name == "v1beta2") {
					t.Errorf("%s: stored %t", version.Name, version.Storage)
				}
				undescribe(version.Schema.OpenAPIV3Schema)
				text, err := json.MarshalIndent(version.Schema, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				versions[version.Name] = string(text)
			}
			if diff := cmp.Diff(versions["v1"], versions["v1beta2"]); diff != "" || len(versions) != 2 {
				t.Errorf("versions %d (-v1 +v1beta2):\n%s", len(versions), diff)
			}
		})
	}
}

func generatedCRD(t *testing.T, dir, name string) apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := t.TempDir()
	var generator genall.Generator = crdgen.Generator{}
	runtime, err := genall.Generators{&generator}.ForRootsWithConfig(&packages.Config{Context: t.Context(),
		Dir: dir}, "./api/...")
	if err != nil {
		t.Fatal(err)
	}
	runtime.OutputRules.Default = genall.OutputToDirectory(out)
	if runtime.Run() {
		t.Fatal("controller-gen reports errors")
	}
	content, err := os.ReadFile(filepath.Join(out, name))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(content, &crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// undescribe drops the descriptions: those of the old version say that it is deprecated.
func undescribe(schema *apiextensionsv1.JSONSchemaProps) {
	schema.Description = ""
	for name, property := range schema.Properties {
		undescribe(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		undescribe(schema.Items.Schema)
	}
}
