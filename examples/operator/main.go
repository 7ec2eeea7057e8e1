// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command operator shows how an operator migrates its own custom resource when it starts: its new release has moved the
// storage version of Widgets from v1 to v2, and a later release shall remove v1.
//
// The ServiceAccount of the operator needs these permissions in addition to those for its work:
//   - get, list and patch widgets.demo.example.com in all namespaces,
//   - get the CustomResourceDefinition, and update its status,
//   - get, create and update ConfigMaps in the namespace of the operator,
//   - list Leases in kube-system and EndpointSlices in default: without these two nothing can be proven.
//
// An operator with several replicas calls migration.run in the leader only: only one sweep of a resource may run at a
// time.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// widgets is the resource to migrate, at its storage version.
var widgets = migrate.Target{
	Resource:   schema.GroupVersionResource{Group: "demo.example.com", Version: "v2", Resource: "widgets"},
	Kind:       "Widget",
	Namespaced: true,
	Origin:     migrate.Custom,
}

var (
	crdResource = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Error("The operator cannot start", "error", err)
		os.Exit(1)
	}
	m := migration{config: config, namespace: os.Getenv("POD_NAMESPACE"), log: log}
	go func() {
		// The operator works as well while old objects are stored, so it does not wait for the migration.
		if err := m.run(ctx); err != nil {
			log.Error("The migration is not complete, the operator resumes it at its next start", "error", err)
		}
	}()
	// Start the controllers of the operator here.
	<-ctx.Done()
}

// migration rewrites all Widgets in their storage version, and then removes the old versions from status.storedVersions
// of the CRD, so that a later release can remove them from the CRD.
type migration struct {
	config    *rest.Config
	namespace string // of the ConfigMap with the checkpoint
	servers   agreement.Options
	options   migrate.Options
	log       *slog.Logger
}

func (m migration) run(ctx context.Context) error {
	config := migrate.WithSharedBackoff(m.config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	crds := client.Resource(crdResource)
	crd, err := crds.Get(ctx, widgets.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the CRD: %w", err)
	}
	if stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); slices.Equal(stored,
		[]string{widgets.Resource.Version}) {
		return nil // an earlier start has completed the migration
	}
	result, err := m.sweep(ctx, config)
	if err != nil {
		return err
	}
	m.log.Info("All Widgets are stored in the storage version", "rewritten", result.Counts.Rewritten,
		"evidence", result.Epoch.Evidence)
	return prune(ctx, crds, result.Epoch)
}

// sweep rewrites the Widgets. It resumes where an earlier process stopped.
func (m migration) sweep(ctx context.Context, config *rest.Config) (migrate.Result, error) {
	servers, err := agreement.Of(config, widgets, m.servers)
	if err != nil {
		return migrate.Result{}, err
	}
	options := m.options
	options.Resume, options.Logger = true, m.log
	if options.Checkpoints, err = migrate.ConfigMapCheckpoints(config, m.namespace, "widgets-migration"); err != nil {
		return migrate.Result{}, err
	}
	sweep, err := migrate.New(config, widgets, servers, options)
	if err != nil {
		return migrate.Result{}, err
	}
	// At SIGTERM, requests in flight are finished and the checkpoint is saved.
	defer context.AfterFunc(ctx, sweep.Stop)()
	result, err := sweep.Run(context.WithoutCancel(ctx))
	for _, f := range result.Failures {
		m.log.Error("A Widget cannot be rewritten", "namespace", f.Namespace, "name", f.Name, "reason", f.Reason,
			"message", f.Message)
	}
	return result, err
}

// errChanged says that the CRD is no longer the one of the migration. A new migration is needed.
var errChanged = errors.New("the CRD changed after the migration")

// prune removes the old versions from status.storedVersions, if the CRD is still the one that epoch is about. If
// someone changes the CRD in between, the API server refuses the update because of its resourceVersion.
func prune(ctx context.Context, crds dynamic.ResourceInterface, epoch migrate.Epoch) error {
	crd, err := crds.Get(ctx, widgets.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the CRD: %w", err)
	}
	if crd.GetUID() != epoch.CRDUID || crd.GetGeneration() != epoch.CRDGeneration {
		return errChanged
	}
	if err := unstructured.SetNestedStringSlice(crd.Object, []string{widgets.Resource.Version}, "status",
		"storedVersions"); err != nil {
		return err
	}
	if _, err := crds.UpdateStatus(ctx, crd, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("prune status.storedVersions: %w", err)
	}
	return nil
}
