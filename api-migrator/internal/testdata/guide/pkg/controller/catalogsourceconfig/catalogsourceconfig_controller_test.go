// Copyright 2019 The Test Operator Authors

package catalogsourceconfig

import (
	"testing"

	operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAdvanceEntersTheRunningPhaseOnce(t *testing.T) {
	r := &ReconcileCatalogSourceConfig{now: metav1.Now}
	config := &operatorsv1.CatalogSourceConfig{Spec: operatorsv1.CatalogSourceConfigSpec{Packages: "a, b,"}}
	if !r.advance(config) || r.advance(config) {
		t.Fatal("want one transition")
	}
	if got := config.Status.CurrentPhase.Phase.Name; got != operatorsv1.PhaseRunning {
		t.Errorf("phase %s", got)
	}
	if got := config.Spec.PackageList(); len(got) != 2 {
		t.Errorf("packages %q", got)
	}
	if len(config.Finalizers) != 1 || config.Finalizers[0] != operatorsv1.CSCFinalizer {
		t.Errorf("finalizers %q", config.Finalizers)
	}
}
