// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package genericserver publishes the storage versions of API servers that are built on k8s.io/apiserver. It connects
// package storageversion with such a server: what is published, the write barrier, the readiness check, and the order
// of start and shutdown.
//
// # How to use it
//
// Add these lines between RecommendedOptions.ApplyTo and config.Complete, and install the API groups through the
// Publication instead of the server:
//
//	publication, err := genericserver.AddTo(config, storageversion.Options{Component: "widgets-apiserver"})
//	if err != nil {
//		return err
//	}
//	server, err := config.Complete().New("widgets-apiserver", genericapiserver.NewEmptyDelegate())
//	…
//	err = publication.InstallAPIGroups(server, &widgets) // instead of server.InstallAPIGroups
//
// The example of AddTo is a whole server. The server needs the permissions that package storageversion lists.
//
// k8s.io/apiserver costs memory: the server of the tests that is built on it takes 62 MiB when idle, and its binary has
// 83 MiB; the one on net/http and package storageversion alone, which serves the same resource, 19 MiB and 22 MiB.
//
// # What is published
//
// The author does not repeat what the server stores, so nothing else can be published than what is stored. For each
// resource of the installed groups:
//
//   - The encoding version is read from an object that the storage codec of the resource has encoded. The codec is the
//     one that the resource's store got from config.RESTOptionsGetter.
//   - Decodable are the versions of the scheme that the same codec has decoded.
//   - Served are the versions of the APIGroupInfo that have the resource.
//
// InstallAPIGroups returns an error if discovery would show another storage version than the codec writes
// (StorageConfig.EncodeVersioner differs from StorageConfig.Codec), and for a store that was not made with
// config.RESTOptionsGetter. A store that was made with it, whose resource InstallAPIGroups has not installed, takes no
// writes, and the server does not become ready. Make stores that are not for a resource of the API with the
// RESTOptionsGetter from before AddTo.
//
// A storage without a method StorageVersion that does not use the RESTOptionsGetter counts as not persisted, as in
// Kubernetes' own StorageVersions. If it does persist objects, use storageversion.Publisher directly.
//
// # Start and shutdown
//
// The server publishes from a post-start hook. The barrier is the innermost handler, behind authorization, so it counts
// a write as finished only when its handler has returned, even if the client got a timeout before. The library's handler
// returns once the request's context has ended, though a request to etcd may be on its way: this is the gap that package
// storageversion names. Code of the server that writes to a store without a request through the handler chain passes no
// barrier: let it send requests with the LoopbackClientConfig.
//
// On shutdown the entries stay published while the server continues to serve: during the ShutdownDelayDuration and the
// PreShutdownHooks. When the server takes no new requests any more, the publisher waits for the last write, withdraws
// the entries, and deletes the Lease. RunWithContext returns after that. So a pod's terminationGracePeriodSeconds has to
// exceed the ShutdownDelayDuration by the RequestTimeout and a few seconds. If the cluster's API server does not answer,
// RunWithContext returns one LeaseDuration later.
package genericserver
