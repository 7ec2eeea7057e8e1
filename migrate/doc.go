// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate rewrites every object of one Kubernetes resource, so that etcd holds it in the current storage
// version, and proves that no older version is left. An operator that only migrates its own custom resource uses package
// migrate/operator, which does everything below. In steps:
//
//	config = migrate.WithSharedBackoff(config)
//	target, err := migrate.Find(ctx, config, schema.GroupResource{Group: "demo.example.com", Resource: "widgets"})
//	…
//	servers, err := agreement.Of(config, target, agreement.Options{})
//	…
//	checkpoints, err := migrate.ConfigMapCheckpoints(config, "widgets-system", "widgets-migration")
//	…
//	sweep, err := migrate.New(config, target, servers, migrate.Options{Checkpoints: checkpoints, Resume: true})
//	…
//	result, err := sweep.Run(ctx)
//
// If the error of [Sweep.Run] is nil, every object is stored in the current version. [Sweep.Proof] says so in a form
// with which [PruneStoredVersions] removes the old versions from the status.storedVersions of a CRD. Otherwise [Result]
// says how far the sweep came, and names the objects that could not be rewritten. The end of ctx is gentle: requests in
// flight are finished, the checkpoint is saved, and the next sweep with Resume goes on from there, in another process if
// need be.
//
// # How it works
//
// Each object gets an empty patch: the API server decodes, encodes and stores it. A sweep creates, deletes and edits
// nothing, and reads metadata only. It slows down as soon as a server asks for it or its latency rises, resumes after the
// death of the process, and needs no more memory for more or larger objects. It succeeds only if every object is
// accounted for within one settled epoch: one uninterrupted period in which all API servers write the same version. The
// interface [Agreement] tells in which epoch the API servers are; package agreement implements it.
//
// # Permissions
//
// The account of config needs list, get and patch on the resource in all namespaces and, for a custom resource, get on
// its CustomResourceDefinition. [Find], [ConfigMapCheckpoints], [PruneStoredVersions] and package agreement say what they
// need in addition.
//
// The caller has to make sure that only one sweep of a resource runs at a time.
package migrate
