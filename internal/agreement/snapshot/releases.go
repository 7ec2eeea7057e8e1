// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "k8s.io/apimachinery/pkg/util/version"

// Releases are the releases of the kube-apiservers that can write, as one round found them.
type Releases struct {
	// All are those that were shown, each once, sorted as text.
	All []string
	// Unread is why some server may be of yet another release. It is empty if every server showed its own. Where only a
	// shared address can be asked, the answers there stand for all servers.
	Unread string
}

// RestartsSeenFrom is the first release whose servers replace their identity Lease when they start. An older server
// keeps the Lease and the holderIdentity of its predecessor: even two restarts, with another storage version in
// between, would leave no trace.
var RestartsSeenFrom = version.MustParseGeneric("1.35.0")

// ShowsRestarts reports whether kube-apiservers of a release, such as "v1.37.0", replace their identity Lease when they
// start, as those from 1.35 on do. It returns false for a release that cannot be parsed.
func ShowsRestarts(release string) bool {
	v, err := version.ParseGeneric(release)
	return err == nil && !v.LessThan(RestartsSeenFrom)
}
