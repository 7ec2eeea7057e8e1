// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"crypto/sha256"
	"encoding/binary"
)

// record is one revision of one key. Its slices are valid during the call that hands it out.
type record struct {
	key, value []byte
	deleted    bool
}

// descend hands out all revisions, newest first, each time that it is called the same ones.
type descend func(visit func(record) error) error

// tableSlots is the size of the table of seen keys: 16 MiB.
const tableSlots = 1 << 20

// newest calls visit with the newest revision of each key that is not deleted, in bounded memory.
//
// The problem: a snapshot holds revisions in the order in which they were written, so whether a revision is its
// key's newest is known only after everything behind it has been read, and a set of all keys does not fit (I6).
//
// Walked newest first, the first revision of a key is the one that counts; to recognise the others it is enough to
// remember which keys have been seen, as digests of fixed size. The table of digests never grows: where there are more
// revisions than it can hold keys, the keys are divided by their digest into parts that fit, and the revisions are
// walked once for each part. A further walk reads the file once more, and up to some 650,000 revisions one is enough.
// Peak memory is the table, whatever there is to read.
//
// Rejected: an external sort of (key, revision) on disk needs one walk less beyond 1.3 million revisions, but leaves
// key digests of a cluster in a temporary file and fails on machines without room for one; a Bloom filter would
// miscount.
//
// Two keys with the same 127-bit digest would be counted as one: for a hundred million keys the chance is below 1e-22.
func newest(revisions, slots int, walk descend, visit func(key, value []byte) error) error {
	// Digests spread evenly: with 5/8 as the aim, a part that outgrows the table (7/8) does not occur.
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

// digest stands for a key. The zero digest stands for none.
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
