// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
)

// First decides about a resource that has no State: it is new, or someone deleted the State to have everything found
// out again. What is stored may be anything, and no run that began before proves otherwise.
func First(l Look) Decision { return sound().first(l) }

// Looked decides after a look at a resource whose recorded State is s.
func Looked(s State, l Look) Decision { return sound().looked(s, l) }

// Returned is Looked for a controller that is back and does not know what happened since s was recorded.
// A controller that watched while another one led does know, and calls Looked.
func Returned(s State, l Look) Decision {
	l.Continuous, l.Passed, l.Definitions = false, nil, nil
	return sound().looked(s, l)
}

// Told decides after someone heard, without a look, that servers are told to write a version. It only adds: the hash
// is recorded before anything can come of it, and an epoch of another hash is over, so that no proof about it trims
// what was added, or was there already. The next look sees the rest.
func Told(s State, hash string) Decision {
	known := slices.Contains(s.Persisted, hash) && (s.Epoch == nil || s.Epoch.Hash == hash)
	if len(s.Persisted) == 0 || hash == "" || known {
		return Decision{State: s}
	}
	s.Persisted = join(s.Persisted, []string{hash})
	s.Epoch, s.Current = nil, Unknown
	return Decision{State: s}
}

// Finished decides after runs succeeded, without another look. s is the record of this process's own look: one that has
// just come back looks first. c is the collection, read after the proofs were. A proof that is refused may count after
// the next look, which sees the epoch that the run has seen, and records it as a doubt if etcd was restored.
func Finished(s State, proofs []Proof, c Collection) Decision { return sound().finished(s, proofs, c) }

// FinishedByHand decides after a run that no StorageVersionMigration asked for, in a process that records no looks.
// before is the record as it was read before the run started, s as it is now, c the collection, read after the run.
// What s does not know yet the next look adds to what is decided here.
func FinishedByHand(before, s State, p Proof, c Collection) Decision {
	return sound().byHand(before, s, p, c)
}

// rules are the parts of the decisions that can be wrong one by one. Tests replace them to see that it is noticed.
type rules struct {
	// doubts are reasons to fear that versions were written which no one can name.
	doubts []doubt
	// written names what may have been written since the recorded look.
	written func(s State, l Look) []string
	// join adds hashes to the persisted ones.
	join func(persisted, hashes []string) []string
	// fence returns the moment after which a run must have started that saw all that the look saw.
	fence func(s State, l Look) uint64
	// refusal is why a proof does not allow to trim the State; empty: it does.
	refusal func(s State, p Proof) string
	// uncompared is why a proof does not trim, although nothing else speaks against it, with the collection as it was
	// read; empty: it does.
	uncompared func(s State, p Proof, c Collection) string
	// shown is what a server that does not answer now is known to write.
	shown func(s State, l Look) []Server
	// overtaken is why a run counts for nothing that was started while the record was before, and ended while it is s;
	// empty: it may count.
	overtaken func(before, s State) string
}

func sound() rules {
	return rules{doubts: soundDoubts(), written: written, join: join, fence: fence, refusal: refusal,
		uncompared: uncompared, shown: shown, overtaken: overtaken}
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
	// One hash, and nothing new: then all writers wrote the same as before, and a run that has begun has nothing to
	// fear from them. This is what lets a migration live through a rolling restart. A moment in the future is one of
	// another etcd.
	if len(written) > 1 || len(s.Persisted) != before || d.Doubt != "" || s.After == 0 ||
		l.Moment != 0 && l.Moment < s.After {
		s.After = r.fence(s, l)
	}
	return r.conclude(s, l, d)
}

// conclude records the look in s, judges the migration by it, and asks for what is missing.
func (r rules) conclude(s State, l Look, d Decision) Decision {
	s.Epoch = agreed(l)
	s.Current = current(s, l)
	s.Heartbeat, s.Servers, s.Traces, s.Definition = l.Begun, l.Servers, l.Traces, l.Definition
	if l.Collection.ResourceVersion != 0 {
		s.Collection = l.Collection // also a lesser one: going backwards is a doubt once
	}
	s.OnlyDecodable = s.OnlyDecodable && (s.Epoch == nil || !l.Settled || l.OnlyDecodable)
	if decodable(s, l) && l.Settled {
		s.Persisted, s.OnlyDecodable = []string{s.Epoch.Hash}, true
	}
	proven := r.finished(s, l.proofs(), l.Collection)
	s, d.Refused = proven.State, proven.Refused
	d.State = s
	if s.Epoch == nil || s.Migrated() || decodable(s, l) || d.Refused == NotCompared {
		return d // another run would prove no more than the one that has succeeded
	}
	if !l.awaited(s) {
		d.Request, d.Reason = max(l.Own.Generation, l.Own.Completed)+1, reason(s, l.Names)
	}
	return d
}

// proofs are those of all migrations.
func (l Look) proofs() []Proof {
	var proofs []Proof
	for _, m := range append([]Migration{l.Own}, l.Others...) {
		if m.Proof != nil {
			proofs = append(proofs, *m.Proof)
		}
	}
	return proofs
}

// awaited reports whether nothing is to be asked for, because a migration that there is will prove what s asks for, or
// someone does not want one. Our own is repeated until it succeeds, and says what someone wants where it exists;
// another one that failed may have been asked for in a way that cannot succeed.
func (l Look) awaited(s State) bool {
	if l.Own.exists() && (l.Own.Held || l.Own.pending(s)) {
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
			if c.ResourceVersion != 0 {
				s.Collection = c
			}
			return Decision{State: s}
		}
		if refused == "" || why == NotCompared {
			refused = why // of one that would count more is to be known
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
	p.Start = before.After + 1 // what is recorded came before it was read
	return r.finished(s, []Proof{p}, c)
}

// overtaken: moments tell nothing to a process that may have lived through the restore of their etcd. That nothing else
// is required than before the run does.
func overtaken(before, s State) string {
	switch {
	case before.After == 0:
		return "nothing was recorded when the run started"
	case before.After != s.After:
		return "another version may have been written since the run started"
	}
	return ""
}

// decodable reports whether nothing has to be rewritten although nothing is proven: the versions that may be stored are
// the one that all servers write and others that no one can name, and no server can decode any of these. A migration
// would come to nothing: it lists and patches through the same servers. Where a version has a name, someone has
// written it, and people should learn that it cannot be read.
func decodable(s State, l Look) bool {
	return s.Epoch != nil && l.OnlyDecodable &&
		!slices.ContainsFunc(s.Persisted, func(hash string) bool { return hash != Unknown && hash != s.Epoch.Hash })
}

// refusal holds I2. Everything that may have been written in another version was so before the run started (After), and
// the run read its baseline in a settled epoch and ended in it: so it has rewritten all that. The record's look has
// seen the same epoch, so the run and the record mean the same servers, the same CRD and the same hash.
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

// uncompared holds I2 for resources whose etcd is restored alone, which changes no record. A State that shrinks records
// the position that the collection had after the run: whatever is restored later lies before it, unless everything was
// rewritten already. The position of an earlier look would not do: a backup that was made in the middle of the run is
// newer than that.
func uncompared(s State, p Proof, c Collection) string {
	switch {
	case c.ResourceVersion == 0:
		return NotCompared
	case c.ResourceVersion < p.Baseline || backwards(s.Collection, c):
		return wentBack
	}
	return ""
}

// fence: every run that starts later reads a greater moment than the one that was read after the look, because the
// record is written in between. Where that is not known, no run counts until it is.
func fence(_ State, l Look) uint64 { return l.Moment }

// mostPersisted is how many hashes a StorageState holds.
const mostPersisted = 64

// reason says why s needs a migration, for people.
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
