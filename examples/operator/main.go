// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command operator shows how an operator migrates its own custom resource when it starts: its new release has moved the
// storage version of Widgets from v1 to v2, and a later release will remove v1. The file rbac.yaml contains the
// permissions that this takes, in addition to those for the operator's work.
//
// An operator made with controller-runtime adds the Migration to its manager, which starts it in the leader:
//
//	err := manager.Add(&migration)
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/migrate/operator"
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
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := migration(config, log).Start(ctx); err != nil {
			log.Error("The migration ended", "error", err)
		}
	}()
	// Start the controllers of the operator here: they need not wait for the migration.
	<-ctx.Done()
	<-ended // the checkpoint is saved
}

// migration rewrites all Widgets in their storage version, and then removes the old versions from status.storedVersions
// of the CRD.
func migration(config *rest.Config, log *slog.Logger) *operator.Migration {
	return &operator.Migration{
		Config:    config,
		Resource:  schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
		Namespace: "widgets-system", // of the operator
		Options:   migrate.Options{MaxObjectsPerSecond: 50, Logger: log},
	}
}
