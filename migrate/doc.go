// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate rewrites every object of one Kubernetes resource, so that etcd holds it in the current storage
// version, and proves that no older version is left:
//
//	config = migrate.WithSharedBackoff(config)
//	servers, err := agreement.Of(config, widgets, agreement.Options{})
//	if err != nil {
//		return err
//	}
//	sweep, err := migrate.New(config, widgets, servers, migrate.Options{})
//	if err != nil {
//		return err
//	}
//	result, err := sweep.Run(ctx)
//
// If the error of [Sweep.Run] is nil, every object is stored in the current version, and the caller may remove the old
// versions from the status.storedVersions of a CRD. Otherwise [Result] says how far the sweep came, and names the
// objects that could not be rewritten. To survive a restart of the process, set Checkpoints and Resume in [Options].
// The folder examples/operator has an operator that migrates its own custom resource when it starts.
//
// # How it works
//
// Each object gets an empty patch: the API server decodes, encodes and stores it. A sweep creates, deletes and edits
// nothing, and reads metadata only (I3, I9). It follows the load of the server (I7), survives the death of the process
// (I5), and needs no more memory for more or larger objects (I6). It succeeds only if every object is accounted for
// within one settled epoch: one uninterrupted period in which all API servers write the same version (I2, I4). The
// interface [Agreement] tells in which epoch the API servers are; package agreement implements it. ARCHITECTURE.md has
// the invariants I1…I9.
//
// # Permissions
//
// The account of config needs list, get and patch on the resource in all namespaces and, for a custom resource, get on
// its CustomResourceDefinition.
//
// The caller has to make sure that only one sweep of a resource runs at a time (I8).
package migrate
