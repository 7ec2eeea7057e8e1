// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// An operator rewrites its own custom resources after their storage version has moved from v1 to v2. A complete
// program, which also stores checkpoints and prunes status.storedVersions, is in the folder examples/operator.
func Example() {
	ctx := context.Background()
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	config = migrate.WithSharedBackoff(config)
	widgets := migrate.Target{
		Resource:   schema.GroupVersionResource{Group: "demo.example.com", Version: "v2", Resource: "widgets"},
		Kind:       "Widget",
		Namespaced: true,
		Origin:     migrate.Custom,
	}
	servers, err := agreement.Of(config, widgets, agreement.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sweep, err := migrate.New(config, widgets, servers, migrate.Options{MaxObjectsPerSecond: 50})
	if err != nil {
		log.Fatal(err)
	}
	result, err := sweep.Run(ctx)
	switch {
	case errors.Is(err, migrate.ErrObjectsFailed):
		for _, f := range result.Failures {
			fmt.Printf("%s/%s cannot be rewritten: %s\n", f.Namespace, f.Name, f.Message)
		}
	case err != nil: // result says how far the sweep came
		log.Fatal(err)
	default:
		fmt.Printf("no Widget is stored in v1: %d were rewritten\n", result.Counts.Rewritten)
	}
}
