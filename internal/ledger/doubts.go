// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"time"
)

// doubt is one reason to fear that a version was written since the recorded look which no one can name.
type doubt struct {
	name string
	// why says what happened, for people; empty: nothing did.
	why func(s State, l Look) string
}

// soundDoubts are all there are. They overlap on purpose: each holds without the others.
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

// restored: etcd holds older objects than it did, and what was recorded since they were written may be gone with the
// rest.
func restored(_ State, l Look) string {
	if l.Restored {
		return wentBack
	}
	return ""
}

// collectionRestored: the etcd that holds the resource has a lesser revision than it had.
func collectionRestored(s State, l Look) string {
	if lesser(l.Collection.ResourceVersion, s.Collection.ResourceVersion) {
		return wentBack
	}
	return ""
}

// witnessRestored: etcd's revision is not lower (it was bumped, or has caught up), but an object is older than it was.
func witnessRestored(s State, l Look) string {
	if older(s.Collection.Witness, l.Collection.Witness) {
		return "an object went backwards: etcd was restored from a backup"
	}
	return ""
}

const (
	// mostWritesPerSecond is far more than any etcd writes; mostWritesAtOnce is for clocks that differ, and looks at
	// the same moment. A bump (etcdutl snapshot restore --bump-revision) is 1,000,000,000 in etcd's documentation.
	mostWritesPerSecond = 100_000
	mostWritesAtOnce    = 10_000_000
)

// bumped: the revision has risen by more than can be written in that time. It is bumped where etcd is restored, so that
// watches notice.
func bumped(s State, l Look) string {
	before, now := s.Collection.ResourceVersion, l.Collection.ResourceVersion
	if !l.Revisions || before == 0 || now <= before {
		return ""
	}
	seconds := max(0, l.Begun.Sub(s.Heartbeat)/time.Second)
	if now-before > mostWritesAtOnce+mostWritesPerSecond*uint64(seconds) {
		return "etcd's revision leapt forward: it was restored from a backup with a bumped revision"
	}
	return ""
}

// backwards reports whether now is from before was.
func backwards(was, now Collection) bool {
	return lesser(now.ResourceVersion, was.ResourceVersion) || older(was.Witness, now.Witness)
}

func lesser(now, was uint64) bool { return now != 0 && now < was }

func older(was, now Witness) bool {
	return was.UID != "" && was.UID == now.UID && now.ResourceVersion < was.ResourceVersion
}

// recreated: another CRD of the same name. No one saw what its first generations told servers to write, nor
// the end of the objects of the one before.
func recreated(s State, l Look) string {
	if (s.Definition == nil) != (l.Definition == nil) || s.Definition != nil && s.Definition.UID != l.Definition.UID {
		return "the CustomResourceDefinition was deleted and created again"
	}
	return ""
}

// generationsMissed: A → B → A looks like A. Only the generation tells, and only a watch tells what was in between.
func generationsMissed(s State, l Look) string {
	if s.Definition != nil && l.Definition != nil && missed(s, l) {
		return fmt.Sprintf("the CustomResourceDefinition was changed more often than was seen (generation %d, now %d)",
			s.Definition.Generation, l.Definition.Generation)
	}
	return ""
}

// missed reports whether there was a generation between the recorded look and this one of which no one knows the
// storage version.
func missed(s State, l Look) bool {
	if s.Definition == nil || l.Definition == nil || s.Definition.UID != l.Definition.UID {
		return true
	}
	if l.Definition.Generation < s.Definition.Generation {
		return true // generations only grow
	}
	for g := s.Definition.Generation + 1; g < l.Definition.Generation; g++ {
		if !slices.ContainsFunc(l.Definitions, func(d Definition) bool {
			return d.UID == l.Definition.UID && d.Generation == g && d.Hash != ""
		}) {
			return true
		}
	}
	return false
}

// cameSilent: a process that does not answer may be writing anything, or have died after it did: its Lease counts as
// fresh for a minute. Waiting for the end of the Lease would leave out for that long what it wrote. It is a doubt once,
// so that a server that never can be asked does not void every run indefinitely; who looks may well ask again for some
// seconds before it tells of a silent server.
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

// cameBack: a process that was suspended for longer than its Lease has not read the CRD's generations meanwhile,
// and may have written in the version of any of them before it caught up. Discovery may have caught up earlier, so what
// it shows does not tell. A built-in resource it writes in the version that it shows.
func cameBack(s State, l Look) string {
	if l.Definition == nil {
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

// goneSilent: a process that never answered may have written anything to its end, and after the doubt of its beginning
// was cleared by a run that was content with weaker evidence.
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

// passedSilent: a process came and went between two looks. One of the recorded look that had answered is known; a
// look that was not recorded does not count.
func passedSilent(s State, l Look) string {
	for _, process := range l.Passed {
		if known, ok := find(s.Servers, process); !ok || !known.Answered {
			return "API server " + process + " came and went before it was asked"
		}
	}
	return ""
}

// replacedUnseen: a process has one version of a built-in resource for all its life, so this is another process under
// the same name, as servers have them that take over the Lease of the one before. How many there were in between no one
// knows.
func replacedUnseen(s State, l Look) string {
	if s.Definition != nil || l.Definition != nil {
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

// moreDecodable: what no one could read, and so no one could rewrite, can be read now, after a downgrade for instance.
// A server that has just come does not declare at once what it can decode; until its epoch has settled that is not
// news.
func moreDecodable(s State, l Look) string {
	if s.OnlyDecodable && l.Epoch != nil && l.Settled && !l.OnlyDecodable {
		return "no migration has proven what is stored, and API servers may be able to decode more than one version now"
	}
	return ""
}

// unwatched: without a watch nothing is known of the time between two looks, except where the same processes live still
// and none has left a trace. However long that was: identities do not come back, and traces do not go in time to
// matter.
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
