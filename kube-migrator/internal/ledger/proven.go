// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

// Proven is the part of a proof that lasts: every object of the resource whose resourceVersion is at most UpTo is stored
// in the version of Hash (I10). A doubt concerns only what was written after that, so the run that settles the doubt
// need not rewrite these objects. The zero value says nothing.
type Proven struct {
	Hash string
	// UpTo is a resourceVersion of the etcd that holds the resource and the State.
	UpTo uint64
}

// and returns what is proven if p and next are. A State has room for one version, and next is the newer one.
func (p Proven) and(next Proven) Proven {
	if next.UpTo == 0 || next.Hash == p.Hash && next.UpTo < p.UpTo {
		return p
	}
	return next
}

// lasting returns what is still proven after a look. An etcd of its own can be restored while the State stays as it is,
// and can have caught up before a look finds out. A collection that is older than the State, in one etcd, was copied
// without its resourceVersions, or the State was written back from elsewhere.
func lasting(s State, l Look) Proven {
	if l.Elsewhere || backwards(s.Collection, l.Collection) || lesser(l.Collection.ResourceVersion, s.Proven.UpTo) {
		return Proven{}
	}
	return s.Proven
}

// risen returns what is proven after a look that is recorded in s. While everything is migrated, everything that was
// written before the look began is stored in the current version (I1), and so is every object that is not newer than
// Reached. It rises only from a proof that lasts: with weaker evidence, I1 holds less strictly.
func risen(s State, l Look) Proven {
	if !s.Migrated() || s.OnlyDecodable || s.Epoch == nil || s.Proven.Hash != s.Epoch.Hash || !l.Shared {
		return s.Proven
	}
	return s.Proven.and(Proven{Hash: s.Epoch.Hash, UpTo: l.Reached})
}
