// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"crypto/sha256"
	"encoding/binary"
)

// record is one revision of one key. Its slices are valid during the call that receives it.
type record struct {
	key, value []byte
	deleted    bool
}

// descend calls visit with all revisions, newest first. Every call visits the same ones.
type descend func(visit func(record) error) error

// tableSlots is the size of the table of seen keys: 16 MiB.
const tableSlots = 1 << 20

// newest calls visit with the newest revision of each key that is not deleted, in bounded memory.
//
// The problem: a snapshot contains revisions in the order in which they were written. So only a reader of everything
// after a revision knows whether the revision is the newest one of its key, and a set of all keys does not fit into
// memory (I6).
//
// newest walks from the newest revision to the oldest, so that the first revision of a key is the one that counts. To
// recognize the others it remembers which keys it has seen, as digests of a fixed size. The table of digests never
// grows: if there are more revisions than it can hold keys, newest divides the keys by their digest into parts that
// fit, and walks over the revisions once per part. Each further walk reads the file once more; up to some 650,000
// revisions one walk is enough. Peak memory is the table, whatever the size of the file.
//
// Rejected: an external sort of (key, revision) on disk needs one walk less beyond 1.3 million revisions, but leaves
// digests of a cluster's keys in a temporary file, and fails on machines without room for one. A Bloom filter would
// miscount.
//
// Two keys with the same 127-bit digest would be counted as one: for a hundred million keys the probability is below
// 1e-22.
func newest(revisions, slots int, walk descend, visit func(key, value []byte) error) error {
	// Digests are evenly distributed: if parts aim at 5/8 of the table, none outgrows its limit of 7/8.
	perPart := slots * 5 / 8
	parts := uint64(max(1, (revisions+perPart-1)/perPart))
	seen := &digestTable{slots: make([]digest, slots)}
	for part := range parts {
		seen.clear()
		err := walk(func(r record) error {
			d := digestOf(r.key)
			if d.part(parts) != part {
				return nil
			}
			added, err := seen.add(d)
			if err != nil || !added || r.deleted {
				return err
			}
			return visit(r.key, r.value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// digest stands for a key. The zero digest stands for no key.
type digest [16]byte

func digestOf(key []byte) digest {
	sum := sha256.Sum256(key)
	d := digest(sum[:16])
	d[15] |= 1
	return d
}

func (d digest) part(parts uint64) uint64 { return binary.BigEndian.Uint64(d[:8]) % parts }
func (d digest) slot(slots int) int       { return int(binary.BigEndian.Uint64(d[8:]) >> 1 % uint64(slots)) }

// digestTable is a set with open addressing and a fixed number of slots.
type digestTable struct {
	slots []digest
	used  int
}

func (t *digestTable) clear() {
	clear(t.slots)
	t.used = 0
}

// add reports whether d was not in the set before.
func (t *digestTable) add(d digest) (bool, error) {
	for i := d.slot(len(t.slots)); ; i = (i + 1) % len(t.slots) {
		switch t.slots[i] {
		case d:
			return false, nil
		case digest{}:
			if t.used >= len(t.slots)*7/8 {
				return false, errTableFull
			}
			t.slots[i] = d
			t.used++
			return true, nil
		}
	}
}
