// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
)

// doubt is one reason to fear that a version was written since the recorded look which nobody can name.
type doubt struct {
	name string
	// why says what happened, for people; empty: nothing did.
	why func(s State, l Look) string
}

// soundDoubts are all there are. They overlap on purpose: each holds without the others.
func soundDoubts() []doubt {
	return []doubt{
		{"restored", restored},
		{"created anew", createdAnew},
		{"generations missed", generationsMissed},
		{"came without an answer", cameSilent},
		{"gone without an answer", goneSilent},
		{"passed without an answer", passedSilent},
		{"replaced unseen", replacedUnseen},
		{"nobody watched", unwatched},
		{"more can be decoded", moreDecodable},
	}
}

// restored: etcd holds older objects than it did, and what was recorded since they were written may be gone with the rest.
func restored(s State, l Look) string {
	if l.Restored || l.ResourceVersion != 0 && l.ResourceVersion < s.ResourceVersion {
		return "etcd went backwards: it was restored from a backup"
	}
	return ""
}

// createdAnew: another definition of the same name. Nobody saw what its first generations told servers to write, nor
// the end of the objects of the one before.
func createdAnew(s State, l Look) string {
	if (s.Definition == nil) != (l.Definition == nil) || s.Definition != nil && s.Definition.UID != l.Definition.UID {
		return "the CustomResourceDefinition was created anew"
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

// missed reports whether there was a generation between the recorded look and this one of which nobody knows the storage version.
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

// cameSilent: a process that does not answer may be writing anything, or have died after it did: its Lease counts as fresh for a
// minute. Waiting for the end of the Lease would leave out for that long what it wrote. It is a doubt once, so that a server that never can be asked
// does not void every run for ever; who looks may well ask again for some seconds before it tells of a silent server.
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

// goneSilent: a process that never answered may have written anything to its end, and after the doubt of its beginning was cleared by a
// run that was content with weaker evidence.
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

// replacedUnseen: a process has one version of a built-in resource for all its life, so this is another process under the same
// name, as servers have them that take over the Lease of the one before. How many there were in between nobody knows.
func replacedUnseen(s State, l Look) string {
	if s.Definition != nil || l.Definition != nil {
		return ""
	}
	for _, server := range l.Servers {
		if known, ok := find(s.Servers, server.process()); ok && known.Hash != "" && server.Hash != "" && known.Hash != server.Hash {
			return "API server " + server.ID + " shows another version than before: it was replaced unseen"
		}
	}
	return ""
}

// moreDecodable: what nobody could read, and so nobody could rewrite, can be read now, after a downgrade for instance. A server that has just
// come does not declare at once what it can decode; until its epoch has settled that is no news.
func moreDecodable(s State, l Look) string {
	if s.OnlyDecodable && l.Epoch != nil && l.Settled && !l.OnlyDecodable {
		return "no migration has proven what is stored, and API servers may be able to decode more than one version now"
	}
	return ""
}

// unwatched: without a watch nothing is known of the time between two looks, except where the same processes live still and none has
// left a trace. However long that was: identities do not come back, and traces do not go in time to matter.
func unwatched(s State, l Look) string {
	if l.Continuous {
		return ""
	}
	const why = "nobody watched the API servers: they may have been replaced more than once"
	if len(s.Servers) != len(l.Servers) || len(l.Traces) == 0 {
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
