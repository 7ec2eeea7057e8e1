// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// An operator rewrites its own custom resources after their storage version has moved from v1 to v2.
func Example() {
	ctx := context.Background()
	config, stop, err := clusterWithOldWidgets(ctx, 100) // rest.InClusterConfig() in an operator
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	config = migrate.WithSharedBackoff(config) // all clients wait when the API server asks one of them to
	widgets := migrate.Target{
		Resource:   schema.GroupVersionResource{Group: "demo.example.com", Version: "v2", Resource: "widgets"},
		Kind:       "Widget",
		Namespaced: true,
		Origin:     migrate.Custom,
	}
	servers, err := agreement.New(config, widgets, agreement.Options{ShutdownDelay: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	sweep, err := migrate.New(config, widgets, servers, migrate.Options{
		SettleTime: time.Second, // for a cluster that no one else uses; leave the default elsewhere
		Verify:     true,
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := sweep.Run(ctx)
	if err != nil { // not everything was rewritten, or it is not proven; result says how far it came
		log.Fatal(err)
	}
	fmt.Println("rewritten:", result.Counts.Rewritten)
	fmt.Println("proven:", result.Proven, "evidence:", result.Epoch.Evidence)
	// Output:
	// rewritten: 100
	// proven: true evidence: Observed
}

func clusterWithOldWidgets(ctx context.Context, n int) (config *rest.Config, stop func(), err error) {
	cluster, err := testbed.Start(ctx, testbed.Options{Progress: os.Stderr})
	if err != nil {
		return nil, nil, err
	}
	for _, step := range []func() error{
		func() error { return cluster.InstallWidgets(ctx, testbed.Widgets{}) },
		func() error { return cluster.BulkCreate(ctx, testbed.Bulk{Count: n}) },
		func() error { return cluster.MoveStorage(ctx, testbed.WidgetDefinition, "v2") },
	} {
		if err := step(); err != nil {
			cluster.Stop()
			return nil, nil, err
		}
	}
	return cluster.Config(), cluster.Stop, nil
}
