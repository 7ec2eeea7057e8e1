// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import "time"

// checkpoint is the state of a sweep after the last finished page, and the content of Checkpoint.Data. The format of
// its JSON is stable within one Version.
type checkpoint struct {
	Version  int    `json:"version"`
	Resource string `json:"resource"`
	// Begun means that a pass is in progress, or done, in Epoch.
	Begun bool `json:"begun,omitempty"`
	// Epoch is the epoch in which the pass began. Baseline is the resourceVersion of the collection, read once the
	// epoch had settled; it is 0 if that is not a number, and before the first page.
	Epoch    Epoch  `json:"epoch"`
	Baseline uint64 `json:"baseline"`
	// Confirmed is the newest resourceVersion read before a moment at which Epoch was still the present one.
	Confirmed uint64 `json:"confirmed"`
	// Done is a key up to which the pass has handled every object without a failure, or "" before the first page.
	// ConfirmedDone is the value of Done when the newest resourceVersion was Confirmed. DoneAt and ConfirmedDoneAt are
	// the newest resourceVersions that had been read when the pass reached these keys.
	Done            string `json:"done,omitempty"`
	DoneAt          uint64 `json:"doneAt,omitempty"`
	ConfirmedDone   string `json:"confirmedDone,omitempty"`
	ConfirmedDoneAt uint64 `json:"confirmedDoneAt,omitempty"`
	// Over means that Epoch was seen to be over. The pass does not continue, even if the next look shows the same epoch
	// again.
	Over bool `json:"over,omitempty"`
	// LookedAt is when Epoch was last found to be the present one.
	LookedAt time.Time `json:"seen,omitzero"`
	// Ranges are the good ranges of earlier epochs, and Prefix the longest good prefix.
	Ranges []goodRange `json:"ranges,omitempty"`
	Prefix goodPrefix  `json:"prefix,omitzero"`
	// Unordered means that lists are not, or may not be, in the order of keys, like those of aggregated API servers.
	// There is no Prefix then.
	Unordered bool `json:"unordered,omitempty"`
	// Witnesses are objects as this sweep left them, sorted by resourceVersion, the lowest first. They are read before
	// any other part of the checkpoint is used.
	Witnesses []witness `json:"witnesses,omitempty"`
	// Restored is when this sweep last saw that etcd had been restored, or zero. From then on the epoch has to settle
	// again, also for a process that resumes.
	Restored time.Time `json:"restored,omitzero"`
	// Incomparable means that an object was listed with a greater resourceVersion than its list, as on some aggregated
	// API servers. Comparisons prove nothing then, and every object is rewritten.
	Incomparable bool `json:"incomparable,omitempty"`
	// Continue is the list's token after the last finished page. Listed is set when no page is left. A saved checkpoint
	// does not contain a long token: see encode.
	Continue string `json:"continue,omitempty"`
	Listed   bool   `json:"listed,omitempty"`
	// Complete means that every object was accounted for, and the epoch was still the same after the last write.
	Complete bool `json:"complete,omitempty"`

	Counts   Counts    `json:"counts"`
	Total    int64     `json:"total"`
	Failures []Failure `json:"failures,omitempty"`
	// FailuresOmitted counts the failures that Failures does not contain: that has at most 1,000 elements, and 512 KiB
	// as JSON.
	FailuresOmitted int64     `json:"failuresOmitted,omitempty"`
	Restarts        int       `json:"restarts,omitempty"`
	Started         time.Time `json:"started"`
	Updated         time.Time `json:"updated"`
}

const checkpointVersion = 2

// inEpoch reports whether the pass in c can continue in an epoch that is seen now: the epoch is the same, and has been
// all the time.
func (c *checkpoint) inEpoch(e Epoch, now time.Time) bool {
	return c.Begun && !c.Over && c.Epoch.lasts(e) && c.followed(now) &&
		(c.Epoch.CRDUID != "" || !e.began().After(c.LookedAt))
}

// maxBlind is how long a pass may go without a look at the API servers. The Lease of a server that crashed stays for a
// minute, but a server that shuts down deletes its Lease. Within maxBlind no server can start, receive requests, and
// shut down again.
const maxBlind = 10 * time.Second

// followed reports whether no API server can have come and gone unseen between the last look and this one. For a custom
// resource, all API servers write what the CRD says as long as its generation does not change.
func (c *checkpoint) followed(now time.Time) bool {
	blind := now.Round(0).Sub(c.LookedAt.Round(0)) // without the monotonic clock, which stands still while a machine sleeps
	return c.Epoch.CRDUID != "" || blind > -maxBlind && blind < maxBlind
}

// resumable reports whether another process may continue within the epoch: whether an epoch that looks the same is the
// same. Servers that were only sampled may have changed without a trace, unless the generation of a CRD shows it.
func (c *checkpoint) resumable() bool { return c.Epoch.Evidence >= Observed || c.Epoch.CRDUID != "" }

// end ends the pass. Its results are kept as a good range if its epoch was observed on every API server; a sample can
// miss a server.
func (c *checkpoint) end() {
	if !c.Begun {
		return
	}
	if c.Epoch.Evidence >= Observed && c.Baseline > 0 && !c.Incomparable {
		c.Ranges = addRange(c.Ranges, goodRange{Hash: c.Epoch.Hash, From: c.Baseline, To: c.Confirmed})
		c.Prefix = c.Prefix.or(goodPrefix{Hash: c.Epoch.Hash, Key: c.ConfirmedDone, ResourceVersion: c.Confirmed,
			Reached: c.ConfirmedDoneAt})
	}
	c.clear()
	c.recount()
	c.Restarts++
}

// clear drops the position of the pass.
func (c *checkpoint) clear() {
	c.Begun, c.Over, c.Baseline, c.Confirmed, c.LookedAt = false, false, 0, 0, time.Time{}
	c.Done, c.DoneAt, c.ConfirmedDone, c.ConfirmedDoneAt = "", 0, "", 0
	c.Continue, c.Listed, c.Complete = "", false, false
}

// recount resets the counts: the objects will be listed again.
func (c *checkpoint) recount() {
	c.Counts = Counts{
		RewrittenBefore: c.Counts.RewrittenBefore + c.Counts.Rewritten,
		Retried:         c.Counts.Retried, ChangedByAdmission: c.Counts.ChangedByAdmission,
		ManagedFieldsDropped: c.Counts.ManagedFieldsDropped, ThroughStatus: c.Counts.ThroughStatus,
	}
	c.Failures, c.FailuresOmitted = nil, 0
}

// begin starts a new pass in an epoch that has settled.
func (c *checkpoint) begin(e Epoch) {
	c.end()
	c.clear() // including what a concurrent look has added since the pass ended
	c.Begun, c.Epoch = true, e
}

// done records that the pass has handled objects, which follow the one with the key last in the list, and that the
// failed ones among them are counted. It returns the last key. newest is the newest resourceVersion that has been read.
// If a list is out of order, there is no prefix.
func (c *checkpoint) done(last string, objects []object, newest uint64) string {
	done := ""
	for _, o := range objects {
		key := o.key()
		if key <= last {
			c.Unordered = true
			continue
		}
		if last = key; o.savable() {
			done = key
		}
	}
	switch {
	case c.Unordered:
		c.Done, c.ConfirmedDone, c.Prefix = "", "", goodPrefix{}
	case c.Counts.Failed == 0:
		c.Done, c.DoneAt = max(c.Done, done), newest
	}
	return last
}

// confirm records that the epoch lasted until s was recorded, and longer.
func (c *checkpoint) confirm(s position) {
	c.Confirmed = max(c.Confirmed, s.newest)
	if !c.Unordered && s.done > c.ConfirmedDone {
		c.ConfirmedDone, c.ConfirmedDoneAt = s.done, s.doneAt
	}
}

// current reports whether an object is known to be stored in the current version: it was written in this epoch, or is
// in a good range of its hash, or in its good prefix.
func (c *checkpoint) current(o object) bool {
	resourceVersion := number(o.resourceVersion)
	if resourceVersion == 0 || c.Baseline == 0 || c.Incomparable || c.Epoch.Evidence < Observed {
		return false
	}
	return resourceVersion > c.Baseline || inRange(c.Ranges, c.Epoch.Hash, resourceVersion) ||
		c.Prefix.covers(c.Epoch.Hash, o.key(), resourceVersion)
}

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
