// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// What makes objects, or says which group, version and kind they are of, must not come from the new version: the old
// one's callers would get other objects.
func TestTheOldVersionKeepsWhatMeansSomethingElseInEach(t *testing.T) {
	t.Parallel()
	const makes, test = "pkg/apis/operators/v1/catalogsourceconfig_make.go", "pkg/apis/operators/check_test.go"
	for _, asked := range []request.Request{
		options{request.SharedPackage, request.OldWrap, request.UnexportedInternal}.of(guideRequest),
		func() request.Request {
			renamed := options{request.SharedNewest, request.OldAlias, request.UnexportedExport}.of(guideRequest)
			renamed.ToKind = "CatalogSourceConfigurer"
			return renamed
		}(),
	} {
		t.Run(asked.Old, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, "guide")
			write(t, dir, map[string]string{
				makes: `package v1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MakeCatalogSourceConfig makes one.
func MakeCatalogSourceConfig(packages string) *CatalogSourceConfig {
	config := &CatalogSourceConfig{Spec: CatalogSourceConfigSpec{Packages: joined(packages)}}
	config.EnsureGVK()
	return config
}

// joined needs no version.
func joined(packages string) string { return packages }

// CatalogSourceConfigGVK says what they are.
var CatalogSourceConfigGVK = kindOf(CatalogSourceConfigKind)

func kindOf(kind string) schema.GroupVersionKind { return SchemeGroupVersion.WithKind(kind) }

// CatalogSourceConfigRef holds one.
type CatalogSourceConfigRef struct {
	Config *CatalogSourceConfig
}
`,
				// Reads only what both trees have, and is written for the old names.
				test: `package operators

import (
	"testing"

	operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
)

func TestOldNames(t *testing.T) {
	want := "operators.example.com/v1, Kind=CatalogSourceConfig"
	made := operatorsv1.MakeCatalogSourceConfig("a")
	ref := operatorsv1.CatalogSourceConfigRef{Config: made}
	if got := ref.Config.GroupVersionKind().String(); got != want {
		t.Error(got)
	}
	if got := operatorsv1.CatalogSourceConfigGVK.String(); got != want || operatorsv1.CatalogSourceConfigKind != made.Kind {
		t.Error(got)
	}
}
`,
			})
			run(t, dir, "go", "test", "./pkg/apis/operators")
			asked.Consumers = []string{request.ConsumersNone}
			outcome, err := Make(t.Context(), dir, asked)
			if err != nil || len(outcome.Plan.Blockers) > 0 {
				t.Fatalf("blockers %v, %v", outcome.Plan.Blockers, err)
			}
			found := false
			for _, finding := range outcome.Plan.Findings {
				found = found || strings.Contains(finding.Text,
					"CatalogSourceConfigRef is a type of its own in each version: it needs CatalogSourceConfig")
			}
			if !found {
				t.Errorf("no finding names the type that both versions have: %v", outcome.Plan.Findings)
			}
			if err := outcome.write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			run(t, dir, "go", "test", "./pkg/apis/operators")
		})
	}
}
