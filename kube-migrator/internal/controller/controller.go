// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package controller puts the controllers of an installation into one process: migration, which carries out migrations,
// trigger, which asks for them, and storageversions, which removes what crashed API servers leave. They share the
// connection, the cache, the Lease and the fence, and know nothing of each other but the objects in the cluster, with
// two exceptions: storageversions removes nothing that the trigger has not recorded, and no migration expires before the
// trigger has recorded its proof. It decides nothing.
package controller

import (
	"context"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/migration"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/storageversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
)

// Options are those of migration and trigger. Namespace, MinEvidence, SettleTime, Logger and Worker of the trigger are
// taken from the other.
type Options struct {
	Migration migration.Options
	Trigger   trigger.Options
}

// Run runs all until the context ends; see migration.Run.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	o.Trigger.Namespace, o.Trigger.MinEvidence, o.Trigger.Logger = o.Migration.Namespace,
		o.Migration.Settings.MinEvidence, o.Migration.Logger
	o.Trigger.SettleTime = o.Migration.Settings.SettleTime
	if !o.Migration.InProcess {
		o.Trigger.Worker = access.Account{Namespace: o.Migration.Namespace, Name: o.Migration.WorkerServiceAccount}
	}
	o.Trigger.Covered = new(trigger.Covered)
	o.Migration.Unrecorded = trigger.AwaitsRecord
	o.Migration.Also = func(m manager.Manager, fenced *rest.Config) error {
		if err := storageversions.Add(m, fenced, o.Trigger.Covered.Has, o.Migration.Logger); err != nil {
			return err
		}
		return trigger.Add(m, fenced, o.Trigger)
	}
	return migration.Run(ctx, config, o.Migration)
}
