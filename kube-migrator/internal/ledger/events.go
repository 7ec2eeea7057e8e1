// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
)

// First decides about a resource that has no State: the resource is new, or someone deleted its State to force
// rediscovery. Any version may be stored, and no run that started earlier proves otherwise.
func First(l Look) Decision { return sound().first(l) }

// Looked decides after a look at a resource whose recorded State is s.
func Looked(s State, l Look) Decision { return sound().looked(s, l) }

// Returned is Looked for a controller that has just become the leader and does not know what happened since s was
// recorded. A controller that kept watching while another one led calls Looked instead.
func Returned(s State, l Look) Decision {
	l.Continuous, l.Passed, l.CRDs = false, nil, nil
	return sound().looked(s, l)
}

// Told decides, without a look, after a CRD has told servers to write a version. It only adds: the hash is recorded at
// once, and an epoch of another hash ends, so that no proof of that epoch trims the hash, even if it was recorded
// before. The next look sees the rest.
func Told(s State, hash string) Decision {
	known := slices.Contains(s.Persisted, hash) && (s.Epoch == nil || s.Epoch.Hash == hash)
	if len(s.Persisted) == 0 || hash == "" || known {
		return Decision{State: s}
	}
	s.Persisted = join(s.Persisted, []string{hash})
	s.Epoch, s.Current = nil, Unknown
	return Decision{State: s}
}

// Finished decides after runs succeeded, without another look. s has to be the record of this process's own look; a
// process that has just become the leader looks first. c is the collection, read after the proofs were read. A refused
// proof may count after the next look: that look sees the epoch of the run and records a doubt if etcd was restored.
func Finished(s State, proofs []Proof, c Collection) Decision { return sound().finished(s, proofs, c) }

// FinishedByHand decides after a run that belongs to no StorageVersionMigration, in a process that records no looks.
// before is the record as it was before the run started, s is the record now, and c is the collection, read after the
// run. The next look adds whatever s does not contain yet.
func FinishedByHand(before, s State, p Proof, c Collection) Decision {
	return sound().byHand(before, s, p, c)
}

// rules are the parts of a decision that can be wrong independently. Mutation tests replace each of them.
type rules struct {
	// doubts are the ways in which unidentified versions may have been written.
	doubts []doubt
	// written names what may have been written since the recorded look.
	written func(s State, l Look) []string
	// join adds hashes to the persisted ones.
	join func(persisted, hashes []string) []string
	// fence returns the moment after which a run must start to have seen everything that the look saw.
	fence func(s State, l Look) uint64
	// refusal returns why a proof does not allow trimming the State, or "" if it does.
	refusal func(s State, p Proof) string
	// uncompared returns why a proof that nothing else speaks against does not trim, given the collection as it was
	// read, or "" if it does.
	uncompared func(s State, p Proof, c Collection) string
	// shown fills in what servers that do not answer now are known to write.
	shown func(s State, l Look) []Server
	// risen returns what is proven after a look that is recorded.
	risen func(s State, l Look) Proven
	// overtaken returns why a run by hand counts for nothing, given the records before and after it, or "" if it may
	// count.
	overtaken func(before, s State) string
}

func sound() rules {
	return rules{doubts: soundDoubts(), written: written, join: join, fence: fence, refusal: refusal,
		uncompared: uncompared, shown: shown, risen: risen, overtaken: overtaken}
}

func (r rules) first(l Look) Decision {
	s := State{Persisted: []string{Unknown}}
	l.Servers = r.shown(s, l)
	s.Persisted = r.join(s.Persisted, r.written(s, l))
	s.After = r.fence(s, l)
	return r.conclude(s, l, Decision{Doubt: "nothing is recorded"})
}

func (r rules) looked(s State, l Look) Decision {
	if len(s.Persisted) == 0 {
		return r.first(l)
	}
	if vanished(s, l) {
		return Decision{Forget: true}
	}
	l.Servers = r.shown(s, l)
	s.Proven = lasting(s, l)
	var d Decision
	for _, doubt := range r.doubts {
		if d.Doubt = doubt.why(s, l); d.Doubt != "" {
			break
		}
	}
	written := r.written(s, l)
	if d.Doubt != "" {
		written = append(written, Unknown)
	}
	before := len(s.Persisted)
	s.Persisted = r.join(s.Persisted, written)
	// If only one hash may have been written, and it is not new, all writers wrote the same version as before, and a
	// run that is under way remains valid. This is how a migration survives a rolling restart. An After in the future
	// belongs to an etcd that has been restored since.
	if len(written) > 1 || len(s.Persisted) != before || d.Doubt != "" || s.After == 0 ||
		l.Moment != 0 && l.Moment < s.After {
		s.After = r.fence(s, l)
	}
	return r.conclude(s, l, d)
}

// conclude records the look in s, trims s by the proofs there are, and requests a migration if one is missing.
func (r rules) conclude(s State, l Look, d Decision) Decision {
	s.Epoch = agreed(l)
	s.Current = current(s, l)
	s.Heartbeat, s.Servers, s.Traces, s.CRD = l.Started, l.Servers, l.Traces, l.CRD
	if l.Collection.ResourceVersion != 0 {
		s.Collection = l.Collection // also a lesser one: going backwards is a doubt once
	}
	s.OnlyDecodable = s.OnlyDecodable && (s.Epoch == nil || !l.Settled || l.OnlyDecodable)
	if decodable(s, l) && l.Settled {
		s.Persisted, s.OnlyDecodable = []string{s.Epoch.Hash}, true
	}
	proven := r.finished(s, l.proofs(), l.Collection)
	s, d.Refused = proven.State, proven.Refused
	s.Proven = r.risen(s, l)
	d.State = s
	if s.Epoch == nil || s.Migrated() || decodable(s, l) || d.Refused == NotCompared {
		return d // another run would prove no more than the one that has succeeded
	}
	if !l.awaited(s) {
		d.Request, d.Reason = max(l.Own.Generation, l.Own.Completed)+1, reason(s, l.Names)
	}
	return d
}

// proofs returns the proofs of all migrations.
func (l Look) proofs() []Proof {
	var proofs []Proof
	for _, m := range append([]Migration{l.Own}, l.Others...) {
		if m.Proof != nil {
			proofs = append(proofs, *m.Proof)
		}
	}
	return proofs
}

// awaited reports whether no request is needed: an existing migration will prove what s asks for, or a user holds it
// back. Our own migration, where it exists, decides whether a user holds it back, and it is repeated until it succeeds.
// A migration of someone else that failed may have been requested in a way that can never succeed.
func (l Look) awaited(s State) bool {
	if l.Own.exists() && (l.Own.Held || l.Own.pending(s) && !l.Own.corrected(l.CRD)) {
		return true
	}
	return slices.ContainsFunc(l.Others, func(m Migration) bool {
		return m.Held && !l.Own.exists() || !m.Held && !m.Failed && m.pending(s)
	})
}

func (r rules) finished(s State, proofs []Proof, c Collection) Decision {
	if len(proofs) == 0 || len(s.Persisted) == 0 || s.Migrated() && !s.OnlyDecodable {
		return Decision{State: s}
	}
	refused := ""
	for _, p := range proofs {
		why := r.refusal(s, p)
		if why == "" {
			why = r.uncompared(s, p, c)
		}
		if why == "" {
			s.Persisted, s.OnlyDecodable = []string{s.Epoch.Hash}, false
			if p.Observed && c.Shared {
				s.Proven = s.Proven.and(Proven{Hash: s.Epoch.Hash, UpTo: p.Baseline})
			} else {
				s.Proven = Proven{} // it must not rise over what this proof found with weaker evidence
			}
			if c.ResourceVersion != 0 {
				s.Collection = c
			}
			return Decision{State: s}
		}
		if refused == "" || why == NotCompared {
			refused = why // NotCompared wins: it is the one that may still count
		}
	}
	if s.Migrated() { // no proof is needed
		refused = ""
	}
	return Decision{State: s, Refused: refused}
}

func (r rules) byHand(before, s State, p Proof, c Collection) Decision {
	if why := r.overtaken(before, s); why != "" && len(s.Persisted) > 0 && (!s.Migrated() || s.OnlyDecodable) {
		return Decision{State: s, Refused: why}
	}
	p.Start = before.After + 1 // the run started after before was read, and so after everything that it records
	return r.finished(s, []Proof{p}, c)
}

// overtaken cannot compare moments, because the process may have run across a restore of the etcd that they come from.
// It requires instead that both records have the same After.
func overtaken(before, s State) string {
	switch {
	case before.After == 0:
		return "nothing was recorded when the run started"
	case before.After != s.After:
		return "another version may have been written since the run started"
	}
	return ""
}

// decodable reports whether a migration is pointless although nothing is proven: the only stored version with a known
// name is the one that all servers write, and no server can decode any other. A migration lists and patches through the
// same servers, so it could not find the others. A stored version with a known name does not qualify: it was written,
// and users have to learn that it cannot be read.
func decodable(s State, l Look) bool {
	return s.Epoch != nil && l.OnlyDecodable &&
		!slices.ContainsFunc(s.Persisted, func(hash string) bool { return hash != Unknown && hash != s.Epoch.Hash })
}

// refusal implements I2. All writes in other versions happened before the run started (After). The run read its
// baseline in a settled epoch and ended in the same epoch, so it rewrote all of them. The recorded look saw that epoch
// too, so the run and the record mean the same servers, CRD and hash.
func refusal(s State, p Proof) string {
	switch {
	case s.After == 0 || p.Start <= s.After:
		return TooEarly
	case s.Epoch == nil:
		return "the API servers do not agree now"
	case p.Epoch.Hash != s.Epoch.Hash:
		return "the run was about another version"
	case !p.Epoch.Same(*s.Epoch):
		return "the epoch of the run is over"
	}
	return ""
}

// TooEarly refuses a proof for good: a run that starts later is needed.
const TooEarly = "the run may have started before another version was written"

// NotCompared refuses a proof that counts as soon as the collection is compared.
const NotCompared = "the collection could not be read, or its resourceVersion is not a number: whether its etcd was " +
	"restored is unknown"

const wentBack = "etcd went backwards: it was restored from a backup"

// uncompared implements I2 for resources whose etcd can be restored alone, which changes no record. When a State
// shrinks, it records the position that the collection had after the run. Any backup that is restored later is older
// than that position, unless it was made after everything had been rewritten. The position of an earlier look would not
// do: a backup made in the middle of the run is newer.
func uncompared(s State, p Proof, c Collection) string {
	switch {
	case c.ResourceVersion == 0:
		return NotCompared
	case c.ResourceVersion < p.Baseline || backwards(s.Collection, c):
		return wentBack
	}
	return ""
}

// fence returns the moment that was read after the look. The record is written after that moment, so every run that
// starts later reads a greater one. If the moment is unknown, no run counts until it is known.
func fence(_ State, l Look) uint64 { return l.Moment }

// mostPersisted is how many hashes a StorageState holds.
const mostPersisted = 64

// reason says why s needs a migration, for users.
func reason(s State, names map[string]string) string {
	if slices.Contains(s.Persisted, Unknown) {
		return "the stored versions are unknown"
	}
	name := func(hash string) string {
		if n := names[hash]; n != "" {
			return n
		}
		return hash
	}
	var others []string
	for _, hash := range s.Persisted {
		if hash != s.Current {
			others = append(others, name(hash))
		}
	}
	if s.Persisted[len(s.Persisted)-1] == s.Current {
		return "storage version changed " + strings.Join(others, ", ") + " → " + name(s.Current)
	}
	return "objects may be stored in " + strings.Join(others, ", ") + ", the storage version is " + name(s.Current)
}
