// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

// Range is a good range: objects whose resourceVersion is greater than From and at most To were written while all
// API servers encoded in the version of Hash, so they are stored in it, whatever happened since.
//
// It is what makes a sweep of a million objects survive a rolling restart of the API servers: a new epoch of the
// same hash begins a new pass, and the pass skips what earlier ones have done (I5).
type Range struct {
	Hash string `json:"hash"`
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// maxRanges bounds how many ranges are kept (I6); the oldest are forgotten, which costs work and never truth.
const maxRanges = 64

// addRange adds r unless it is empty.
func addRange(ranges []Range, r Range) []Range {
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
func inRange(ranges []Range, hash string, resourceVersion uint64) bool {
	for _, r := range ranges {
		if r.Hash == hash && resourceVersion > r.From && resourceVersion <= r.To {
			return true
		}
	}
	return false
}
