// Copyright 2019 The Test Operator Authors

// Package catalogsourceconfig reconciles CatalogSourceConfigs.
package catalogsourceconfig

import (
	"context"

	operatorsv1 "github.com/test-org/test-operator/pkg/apis/operators/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ReconcileCatalogSourceConfig reconciles a CatalogSourceConfig object
type ReconcileCatalogSourceConfig struct {
	client client.Client
	now    func() metav1.Time
}

// Reconcile brings an object into operatorsv1.PhaseRunning.
func (r *ReconcileCatalogSourceConfig) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	config := &operatorsv1.CatalogSourceConfig{}
	if err := r.client.Get(ctx, request.NamespacedName, config); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !r.advance(config) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.client.Status().Update(ctx, config)
}

// advance reports whether the status has changed.
func (r *ReconcileCatalogSourceConfig) advance(config *operatorsv1.CatalogSourceConfig) bool {
	if config.Status.CurrentPhase.Phase.Name == operatorsv1.PhaseRunning {
		return false // nothing to do
	}
	config.EnsureGVK()
	config.EnsureFinalizer()
	next := operatorsv1.NewPhase(operatorsv1.PhaseRunning, "all packages are there")
	return config.Status.CurrentPhase.TransitionInto(next, r.now())
}
