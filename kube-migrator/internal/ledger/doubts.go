// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"time"
)

// doubt is one way in which an unidentified version may have been written since the recorded look.
type doubt struct {
	name string
	// why says what happened, for users. It returns "" if nothing did.
	why func(s State, l Look) string
}

// soundDoubts returns all doubts. They overlap on purpose, so that an event that one of them cannot see is seen by
// another one. Those without a mutant in the test fire only together with others.
func soundDoubts() []doubt {
	return []doubt{
		{"restored", restored},
		{"collection restored", collectionRestored},
		{"witness restored", witnessRestored},
		{"revision bumped", bumped},
		{"created again", recreated},
		{"generations missed", generationsMissed},
		{"came without an answer", cameSilent},
		{"came back", cameBack},
		{"gone without an answer", goneSilent},
		{"passed without an answer", passedSilent},
		{"replaced unseen", replacedUnseen},
		{"no one watched", unwatched},
		{"more can be decoded", moreDecodable},
	}
}

// restored fires if etcd was restored from a backup: it holds older objects than before, and the record may lack what
// was recorded after the backup.
func restored(_ State, l Look) string {
	if l.Restored {
		return wentBack
	}
	return ""
}

// collectionRestored fires if the etcd that holds the resource has a lower revision than before.
func collectionRestored(s State, l Look) string {
	if lesser(l.Collection.ResourceVersion, s.Collection.ResourceVersion) {
		return wentBack
	}
	return ""
}

// witnessRestored fires if an object is older than it was. The revision of a restored etcd need not be lower: it may
// have been bumped, or have caught up.
func witnessRestored(s State, l Look) string {
	if older(s.Collection.Witness, l.Collection.Witness) {
		return "an object went backwards: etcd was restored from a backup"
	}
	return ""
}

const (
	// mostWritesPerSecond is far above what any etcd can write. mostWritesAtOnce allows for clocks that differ and for
	// looks at the same moment. etcd's documentation bumps a revision by 1,000,000,000 (etcdutl snapshot restore
	// --bump-revision).
	mostWritesPerSecond = 100_000
	mostWritesAtOnce    = 10_000_000
)

// bumped fires if the revision has risen by more than etcd can write in that time. Administrators bump the revision
// when they restore etcd, so that watches notice.
func bumped(s State, l Look) string {
	before, now := s.Collection.ResourceVersion, l.Collection.ResourceVersion
	if !l.Revisions || before == 0 || now <= before {
		return ""
	}
	seconds := max(0, l.Started.Sub(s.Heartbeat)/time.Second)
	if now-before > mostWritesAtOnce+mostWritesPerSecond*uint64(seconds) {
		return "etcd's revision leapt forward: it was restored from a backup with a bumped revision"
	}
	return ""
}

// backwards reports whether the collection is in an older state now than it was.
func backwards(was, now Collection) bool {
	return lesser(now.ResourceVersion, was.ResourceVersion) || older(was.Witness, now.Witness)
}

func lesser(now, was uint64) bool { return now != 0 && now < was }

func older(was, now Witness) bool {
	return was.UID != "" && was.UID == now.UID && now.ResourceVersion < was.ResourceVersion
}

// recreated fires if the CRD was replaced by another one of the same name. The storage versions of the new CRD's first
// generations are unknown, and no one saw whether the objects of the old CRD were deleted.
func recreated(s State, l Look) string {
	if (s.CRD == nil) != (l.CRD == nil) || s.CRD != nil && s.CRD.UID != l.CRD.UID {
		return "the CustomResourceDefinition was deleted and created again"
	}
	return ""
}

// generationsMissed fires if the CRD has generations that no watch saw. Storage versions A → B → A look like A: only
// the generation shows that there was a change, and only a watch shows what B was.
func generationsMissed(s State, l Look) string {
	if s.CRD != nil && l.CRD != nil && missed(s, l) {
		return fmt.Sprintf("the CustomResourceDefinition was changed more often than was seen (generation %d, now %d)",
			s.CRD.Generation, l.CRD.Generation)
	}
	return ""
}

// missed reports whether the CRD had a generation between the recorded look and this one whose storage version is
// unknown.
func missed(s State, l Look) bool {
	if s.CRD == nil || l.CRD == nil || s.CRD.UID != l.CRD.UID {
		return true
	}
	if l.CRD.Generation < s.CRD.Generation {
		return true // generations only grow
	}
	for g := s.CRD.Generation + 1; g < l.CRD.Generation; g++ {
		if !slices.ContainsFunc(l.CRDs, func(d CRD) bool {
			return d.UID == l.CRD.UID && d.Generation == g && d.Hash != ""
		}) {
			return true
		}
	}
	return false
}

// cameSilent fires if a new process does not answer. It may be writing any version, or have died after it wrote: its
// Lease counts as fresh for a minute, and waiting for the Lease to end would hide the writes of that minute. A process
// fires only once, so that a server that can never be asked does not void every run indefinitely. The caller may ask a
// server again for some seconds before it reports the server as silent.
func cameSilent(s State, l Look) string {
	for _, server := range l.Servers {
		if server.Answered {
			continue
		}
		if _, known := find(s.Servers, server.process()); !known {
			return "API server " + server.ID + " does not answer: it may write any version"
		}
	}
	return ""
}

// cameBack fires if a process returned after it had been suspended for longer than its Lease. Such a process has not
// read the CRD's generations meanwhile and may have written in the version of any of them before it caught up. Its
// discovery document does not help, because it may have caught up earlier. Built-in resources are exempt: the process
// writes them in the version that it shows.
func cameBack(s State, l Look) string {
	if l.CRD == nil {
		return ""
	}
	for _, server := range l.Servers {
		if _, known := find(s.Servers, server.process()); server.CameBack && !known {
			return "API server " + server.ID + " was suspended for longer than its Lease and came back: it may have " +
				"written an older version"
		}
	}
	return ""
}

// goneSilent fires if a process is gone that never answered. It may have written anything until its end, even after a
// run with weaker evidence cleared the doubt that cameSilent raised.
func goneSilent(s State, l Look) string {
	for _, server := range s.Servers {
		if server.Answered {
			continue
		}
		if _, lives := find(l.Servers, server.process()); !lives {
			return "API server " + server.ID + " went away without ever having answered"
		}
	}
	return ""
}

// passedSilent fires if a process came and went between two looks without being asked. A process that answered in the
// recorded look is known; answers to looks that were not recorded do not count.
func passedSilent(s State, l Look) string {
	for _, process := range l.Passed {
		if known, ok := find(s.Servers, process); !ok || !known.Answered {
			return "API server " + process + " came and went before it was asked"
		}
	}
	return ""
}

// replacedUnseen fires if a process shows another version of a built-in resource than before. One process never changes
// that version, so another process has taken over the identity, as some servers take over the Lease of their
// predecessor. The number of processes in between is unknown.
func replacedUnseen(s State, l Look) string {
	if s.CRD != nil || l.CRD != nil {
		return ""
	}
	for _, server := range l.Servers {
		if known, ok := find(s.Servers, server.process()); ok && known.Hash != "" && server.Hash != "" &&
			known.Hash != server.Hash {
			return "API server " + server.ID + " shows another version than before: it was replaced unseen"
		}
	}
	return ""
}

// moreDecodable fires if API servers may now be able to decode objects that no server could decode before, for example
// after a downgrade. A server that has just started takes a while to declare what it can decode, so this doubt waits
// until the epoch has settled.
func moreDecodable(s State, l Look) string {
	if s.OnlyDecodable && l.Epoch != nil && l.Settled && !l.OnlyDecodable {
		return "no migration has proven what is stored, and API servers may be able to decode more than one version now"
	}
	return ""
}

// unwatched fires if no one watched the API servers since the recorded look, unless the same processes are still
// running and no other process has left a trace. The length of that time does not matter: identities never come back,
// and traces outlast it.
func unwatched(s State, l Look) string {
	if l.Continuous {
		return ""
	}
	const why = "the API servers were not watched: they may have been replaced more than once"
	if len(s.Servers) != len(l.Servers) || len(l.Traces) == 0 || slices.Contains(l.Traces, Untraced) ||
		slices.Contains(s.Traces, Untraced) {
		return why
	}
	for _, server := range l.Servers {
		if _, ok := find(s.Servers, server.process()); !ok {
			return why
		}
	}
	for _, trace := range l.Traces {
		if !slices.Contains(s.Traces, trace) {
			return why
		}
	}
	return ""
}
