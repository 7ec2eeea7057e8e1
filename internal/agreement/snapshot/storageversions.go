// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// The two APIs in which API servers publish what they store. That of kube-apiserver is alpha, off by default, and
// covers neither custom resources nor, as a rule, aggregated ones. Ours is for servers that cannot use it.
const (
	KubernetesAPI = "internal.apiserver.k8s.io"
	OurAPI        = "migration.k8s.io"
)

// StorageVersion is a StorageVersion object: what API servers publish about one resource. An entry remains if its server
// is restarted without the API's feature gate, and for up to two hours if the server crashes, so by itself it proves
// nothing.
type StorageVersion struct {
	API     string // the group
	ID      string // identifies one state of the object
	Entries []Entry
}

// Entry is what one server published.
type Entry struct {
	// Server is the name of its identity Lease. Version is the group/version in which it encodes.
	Server, Version string
	// Decodable are the versions that it can decode.
	Decodable []string
}

// Hash returns the hash of the version for a kind, or "" if the kind is unknown or nothing is stored.
func (e Entry) Hash(kind string) string {
	gv, err := schema.ParseGroupVersion(e.Version)
	if err != nil || gv.Version == "" || kind == "" {
		return ""
	}
	return storageversion.Hash(gv.WithKind(kind))
}
