// Copyright 2019 The Test Operator Authors

package apis

import (
	"testing"

	operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestTheSchemeKnowsEveryKind(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, object := range []runtime.Object{&operatorsv1.CatalogSourceConfig{}, &operatorsv1.OperatorGroup{}} {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil || len(kinds) != 1 {
			t.Errorf("%T: kinds %v, %v", object, kinds, err)
		}
	}
}
