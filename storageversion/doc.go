// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package storageversion is for authors of API servers. It publishes in which version a server stores its resources, so
// that a storage version migrator knows when all replicas agree, and keeps the server from storing anything in a
// version that it has not published.
//
// # How to use it
//
// Create a Publisher with the resources that the server stores, wrap the server's handler with Barrier, run the
// Publisher next to the server, and make it a readiness check:
//
//	publisher, err := storageversion.NewPublisher(storageversion.Options{
//		Config:    config, // rest.InClusterConfig()
//		Component: "widgets-apiserver",
//		Resources: []storageversion.Resource{{
//			GroupResource:     schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
//			EncodingVersion:   v2,
//			DecodableVersions: []schema.GroupVersion{v1, v2},
//			ServedVersions:    []schema.GroupVersion{v1, v2},
//		}},
//	})
//	server.Handler = storageversion.Barrier(publisher, server.Handler)
//	go func() { done <- publisher.Run(ctx) }()
//
// test/aggregated/plain is a whole server on net/http. To end one: let the HTTP server finish its requests
// (http.Server.Shutdown), then cancel the context of Run, and wait for it. For a server on k8s.io/apiserver, package
// genericserver does all of this.
//
// Show Hash in the discovery document, too: it is how the resource's storage version is known where nothing is
// published.
//
// # Permissions
//
//   - leases (coordination.k8s.io) in Options.Namespace: get, list, create, update, delete; and get in kube-system
//   - storageversions (migration.k8s.io or internal.apiserver.k8s.io): get, list, create
//   - storageversions/status: update
//
// # What it guarantees
//
// It follows KEP-2339, in which a server first takes an identity Lease, then publishes, then takes writes:
// https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2339-storageversion-api-for-ha-api-servers
//
//   - A write begins only while an answer of the API server has shown that the resource's entry stands, and the Lease
//     was renewed.
//   - If the API server does not answer, the barrier closes, and cancels writes in flight, before the Lease expires.
//     Other servers drop an entry only after they have seen its Lease unchanged for the Lease's whole duration, by
//     their own clocks, so clocks that differ do no harm.
//   - An entry is withdrawn only after the last write in flight has finished.
//   - Objects are written under the resourceVersion that was read. A process may die between any two requests: what it
//     leaves is an entry without writes, never a write without an entry.
//
// # What it cannot guarantee
//
// A write that the handler goes on with after its context was cancelled, or that is on its way to the store at that
// moment, can be stored after the entry was dropped. The same holds while another program removes an entry, until the
// publisher looks at it again, by default after 10 seconds. Migrators allow for both: they conclude nothing for two
// minutes after a StorageVersion has changed.
//
// A dry run waits as other writes do, since not every server knows the parameter. Resources that share storage are
// published one by one.
//
// # Where to publish
//
// MigrationAPI is a CRD that comes with kube-migrator. InternalAPI is Kubernetes' own, alpha and off by default; where
// kube-controller-manager runs with the feature gate StorageVersionAPI it removes the entries of every server that is
// not a kube-apiserver. kube-migrator takes entries of aggregated API servers from the former, with Leases in
// kube-system.
package storageversion
