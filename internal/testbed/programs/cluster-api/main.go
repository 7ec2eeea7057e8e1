// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command cluster-api lets Cluster API's CRDMigrator migrate the objects of one CRD, and ends when it has: for the
// benchmark, which runs it next to kube-migrator. It has no limit on requests of its own, and removes no managedFields.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster-api:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	flags := flag.NewFlagSet("cluster-api", flag.ContinueOnError) // controller-runtime adds to the common one
	kubeconfig := flags.String("kubeconfig", "", "the API server, and the user")
	group := flags.String("group", "", "group of the objects")
	version := flags.String("version", "", "storage version of the objects")
	kind := flags.String("kind", "", "kind of the objects")
	name := flags.String("crd", "", "name of the CRD")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}

	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		return err
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("configure client: %w", err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: *name}}
	// What an earlier run has noted would make the reconciler skip the CRD.
	forget := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.CRDMigrationObservedGenerationAnnotation)
	if err := direct.Patch(ctx, crd, client.RawPatch("application/merge-patch+json", []byte(forget))); err != nil {
		return fmt.Errorf("prepare CRD: %w", err)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme,
		Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: *group, Version: *version, Kind: *kind})
	migrator := &crdmigrator.CRDMigrator{
		Client: manager.GetClient(), APIReader: manager.GetAPIReader(),
		Config:                 map[client.Object]crdmigrator.ByObjectConfig{object: {}},
		SkipCRDMigrationPhases: []crdmigrator.Phase{crdmigrator.CleanupManagedFieldsPhase},
	}
	if err := migrator.SetupWithManager(ctx, manager, controller.Options{}); err != nil {
		return fmt.Errorf("set up reconciler: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	for {
		select {
		case err := <-ended:
			return errors.Join(errors.New("the manager ended before the migration"), err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := direct.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		if crd.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] != "" {
			stop()
			return <-ended
		}
	}
}
