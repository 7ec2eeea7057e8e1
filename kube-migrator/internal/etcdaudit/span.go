// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import clientv3 "go.etcd.io/etcd/client/v3"

// span is the part of the keys that is still to be read: pages are requested from the key from up to the key until, and
// what is left then up to end.
//
// The problem: etcd counts all keys of a requested range for each answer, even if a limit lets it return few of them. A
// walk that always asked up to the end would cost etcd the square of the number of keys: two minutes for a million.
// So it asks up to an end that is near, which it derives from the keys that it has seen: up to where their common prefix
// ends.
//
// Where a range is left, the next one ends where the next shorter prefix does. Names of objects have fewer than 40
// different bytes, so this is at most 40 times as long, and a key is counted some tens of times at most. Keys of other
// bytes may be counted more often.
//
// Each key between from and end is in exactly one page: from only moves behind a key that was returned, or to until if
// everything before that was returned. It is pure.
type span struct {
	from, until, end string
	limit            int64
}

// manyKeys is the count of a range in keys from which a nearer end is worth it: counting that many costs etcd about as
// much as reading a page.
const manyKeys = 16 * maxPageKeys

func newSpan(prefix string) span {
	end := clientv3.GetPrefixRangeEnd(prefix)
	return span{from: prefix, until: end, end: end, limit: firstPageKeys}
}

// advance takes in a page: its first and its last key, how many keys there were in the range, and whether more of
// them are left. It reports whether there is more to read.
func (s *span) advance(first, last string, count int64, more bool) bool {
	if last != "" {
		s.from = last + "\x00"
	}
	switch {
	case more && count > manyKeys:
		s.narrow(first, last)
	case !more && s.until == s.end:
		return false
	case !more:
		s.from = s.until
		s.widen()
	}
	return true
}

// narrow brings the end of the range nearer: to the end of the longest prefix that the page has in common, or of a
// longer prefix of its last key, if that has been the end already.
func (s *span) narrow(first, last string) {
	common := 0
	for common < min(len(first), len(last)-1) && first[common] == last[common] {
		common++
	}
	for n := max(common, 1); n < len(last); n++ {
		if end := clientv3.GetPrefixRangeEnd(last[:n]); s.isBeforeUntil(end) {
			s.until = end
			return
		}
	}
}

// widen moves the end of the range to where the next shorter prefix ends.
func (s *span) widen() {
	reached := s.until
	s.until = s.end
	if parent := clientv3.GetPrefixRangeEnd(reached[:len(reached)-1]); s.isBeforeUntil(parent) {
		s.until = parent
	}
}

// isBeforeUntil compares ends of ranges. etcd writes the end of all keys as a zero byte.
func (s *span) isBeforeUntil(end string) bool {
	return end != everything && (s.until == everything || end < s.until)
}

// everything is the end of a range without an end.
const everything = "\x00"
