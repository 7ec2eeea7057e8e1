// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"strings"
	"testing"
)

func TestACRDThatIsNoneIsRefused(t *testing.T) {
	for name, test := range map[string]struct{ raw, want string }{
		"an old API": {`{"apiVersion":"apiextensions.k8s.io/v1alpha1","metadata":{"name":"a.b.c"}}`,
			"CustomResourceDefinition a.b.c is of apiextensions.k8s.io/v1alpha1, want apiextensions.k8s.io/v1"},
		"no group": {`{"apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"a.b.c"}}`,
			"the CustomResourceDefinition lacks one of metadata.name, spec.group, spec.names.plural and " +
				"spec.names.kind"},
		"a wrong name":   {`{"apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"a"},"spec":{"group":"b.c","names":{"plural":"as","kind":"A"}}}`, "CustomResourceDefinition a should be named as.b.c"},
		"no version":     {`{"apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"as.b.c"},"spec":{"group":"b.c","names":{"plural":"as","kind":"A"}}}`, "CustomResourceDefinition as.b.c has no spec.versions"},
		"a type is off":  {`{"spec":{"versions":{}}}`, "read CustomResourceDefinition: json: "},
		"a schema is so": {`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"additionalProperties":"b"}}}}}]}}`, "read CustomResourceDefinition: json: "},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("", []byte(test.raw)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestACRDOfV1beta1IsUnfit(t *testing.T) {
	c, err := Parse("old.yaml", []byte(`{"apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"as.b.c"},
		"spec":{"group":"b.c","names":{"plural":"as","kind":"A"},"version":"v1"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if unfit := c.Unfit(); unfit == nil || unfit.Reason != Legacy || unfit.Try != "api-migrator crd upgrade --diff old.yaml" {
		t.Errorf("unfit: %+v", unfit)
	}
}
