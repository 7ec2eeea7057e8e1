// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

// goodRange is a good range: objects whose resourceVersion is greater than From and at most To were written while all
// API servers encoded in the version of Hash, so they are stored in it, whatever has happened since.
//
// Good ranges make a sweep of a million objects survive a rolling restart of the API servers: a new epoch of the same
// hash starts a new pass, and this pass skips what earlier ones have done (I5).
type goodRange struct {
	Hash string `json:"hash"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// goodPrefix is what a pass has handled from the start of the list on: objects whose key is at most Key and whose
// resourceVersion is at most ResourceVersion are stored in the version of Hash.
//
// At that resourceVersion, each object up to that key had been rewritten or was found to be current, and the epoch
// still lasted. An object without a newer resourceVersion has not been written since. Ranges alone would not be enough:
// an object that was written between two of them and is current keeps its resourceVersion when it is sent again, so
// every later pass would send it again. Keys are ordered as etcd orders them, which is the order of lists.
type goodPrefix struct {
	Hash            string `json:"hash"`
	Key             string `json:"key"`
	ResourceVersion uint64 `json:"resourceVersion"`
	// Reached is the newest resourceVersion that had been read when the pass had handled Key: everything that the
	// prefix relies on had happened by then.
	Reached uint64 `json:"reached"`
}

// covers reports whether the object with a key and a resourceVersion is stored in the version of the hash.
func (p goodPrefix) covers(hash, key string, resourceVersion uint64) bool {
	return p.Key != "" && p.Hash == hash && key <= p.Key && resourceVersion <= p.ResourceVersion
}

// or returns the prefix to keep: next, unless a longer one with its hash is known.
func (p goodPrefix) or(next goodPrefix) goodPrefix {
	if next.Key == "" || p.Hash == next.Hash && p.Key > next.Key {
		return p
	}
	return next
}

// maxRanges bounds how many ranges are kept (I6). Dropping the oldest ones costs work, never correctness.
const maxRanges = 64

// addRange adds r unless it is empty.
func addRange(ranges []goodRange, r goodRange) []goodRange {
	if r.To <= r.From {
		return ranges
	}
	ranges = append(ranges, r)
	if len(ranges) > maxRanges {
		ranges = ranges[len(ranges)-maxRanges:]
	}
	return ranges
}

// inRange reports whether a resourceVersion lies in a good range of the hash.
func inRange(ranges []goodRange, hash string, resourceVersion uint64) bool {
	for _, r := range ranges {
		if r.Hash == hash && resourceVersion > r.From && resourceVersion <= r.To {
			return true
		}
	}
	return false
}
