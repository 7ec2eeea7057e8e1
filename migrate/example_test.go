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

// A program rewrites its own custom resources after their storage version has moved from v1 to v2, and then removes v1
// from status.storedVersions of the CRD. Package migrate/operator does this, with checkpoints and repetitions.
func Example() {
	ctx := context.Background()
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	config = migrate.WithSharedBackoff(config)
	widgets, err := migrate.Find(ctx, config, schema.GroupResource{Group: "demo.example.com", Resource: "widgets"})
	if err != nil {
		log.Fatal(err)
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
	if errors.Is(err, migrate.ErrObjectsFailed) {
		for _, f := range result.Failures {
			fmt.Printf("%s/%s cannot be rewritten: %s\n", f.Namespace, f.Name, f.Message)
		}
	}
	if err != nil { // result says how far the sweep came
		log.Fatal(err)
	}
	proof, err := sweep.Proof()
	if err != nil {
		log.Fatal(err)
	}
	removed, err := migrate.PruneStoredVersions(ctx, config, proof)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d Widgets were rewritten, none is stored in %v\n", result.Counts.Rewritten, removed)
}
