// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

// Proven is the part of a proof that lasts: every object of the resource whose resourceVersion is at most UpTo is stored
// in the version of Hash (I10). A doubt concerns only what was written after that, so the run that settles the doubt
// need not rewrite these objects. The zero value says nothing.
type Proven struct {
	Hash string
	// UpTo is a resourceVersion of the etcd that holds the resource.
	UpTo uint64
}

// and returns what holds if p and next do. A State has room for one version, and next is the newer one.
func (p Proven) and(next Proven) Proven {
	switch {
	case next.UpTo == 0 || next.Hash == p.Hash && next.UpTo < p.UpTo:
		return p
	default:
		return next
	}
}

// lasting returns what is still proven after a look. Only etcd itself can take it back, by a restore from a backup: the
// same resourceVersions are then given to other objects. API servers are restarted after that, so nothing lasts unless
// the collection was compared since they were.
func lasting(s State, l Look) Proven {
	if !l.Revisions || !l.Compared {
		return Proven{}
	}
	for _, d := range restoreDoubts() {
		if d.why(s, l) != "" {
			return Proven{}
		}
	}
	return s.Proven
}

// risen returns what is proven after a look that is recorded in s. While everything is migrated, everything that was
// written before the look began is stored in the current version (I1), and so is every object that is not newer than
// Reached.
func risen(s State, l Look) Proven {
	if !s.Migrated() || s.OnlyDecodable || s.Epoch == nil || !l.Revisions || !l.Compared {
		return s.Proven
	}
	return s.Proven.and(Proven{Hash: s.Epoch.Hash, UpTo: l.Reached})
}
