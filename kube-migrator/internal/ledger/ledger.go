// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger decides what is recorded about how one resource is stored, and when a migration is requested. It owns
// persistedStorageVersionHashes: no other package computes them. It is pure: it has no clock and does no I/O, and its
// results share no memory with its arguments that a caller could change.
//
// There is one function per event:
//   - First: the resource has no State.
//   - Looked: someone looked at the API servers.
//   - Returned: the same, but no one watched since the recorded look.
//   - Told: a CRD tells servers what to write.
//   - Finished, FinishedByHand: a migration succeeded.
//
// A deleted resource needs no function of its own: the next look finds that it is gone.
//
// Invariants:
//   - I1. After a decision is recorded, every version that was written before its look began is in Persisted, or is
//     still written by a server that the look shows, or Unknown is in Persisted. Only the record counts: a decision
//     that was not recorded never happened. Every decision is computed from the previous record, so it may be lost, and
//     the next decision makes up for it.
//   - I2. Persisted shrinks to the one hash of a proof; see refusal. There is one exception, which concerns what can be
//     rewritten and not what is stored: if no server can decode another version, Unknown gives way to the one hash; see
//     decodable.
//   - I10. Every object whose resourceVersion is at most Proven.UpTo is stored in the version of Proven.Hash, whatever
//     doubt there is about later writes.
//   - A State is written before anything that follows from it is requested. A process that dies in between leaves a
//     State whose After is above the start of every run, and the next look repeats the request.
//
// How it works: between two recorded looks, servers wrote objects. The function written names every hash that they may
// have used: the hashes that the servers of both looks show, and the storage versions of all generations of the CRD
// between the looks. A doubt is a reason why there may have been more; then Unknown joins. If everything that may have
// been written is one known hash, nothing has changed, even if servers were restarted. Otherwise After rises to the
// present moment, because a run that started earlier may have passed objects before they were written in another
// version, and its own checks of the epoch may not have noticed: epochs of {a, b}, then {a, b, c}, then {a, b} compare
// as equal, and so do the epochs of a CRD's generation 3 while one server lags behind. Only a run that starts later has
// seen everything. So the start of a run, and not its epoch alone, decides what the run proves.
//
// Why I10 holds: a run that counts as a proof rewrote every object that was not newer than its baseline, found that it
// was current, or knew from I10 that it need not ask; what it rewrote is newer than the baseline. So it proves I10 up to
// the baseline. From then on, as long as Persisted is the one hash, I1 says that everything which was written before a
// look began is in that version. Reached is a position that etcd had passed before the look began, and so long before
// that even a process without a fresh Lease, which the look may not have seen, had ended what it could write unseen.
// Proven is kept only for resources in the etcd of the States: if that is restored, both go back to a moment at which I10
// held. A run relies on Proven only in an epoch of the same processes as the recorded look, so that etcd was not restored
// between the two; API servers are restarted after a restore.
//
// A moment is a resourceVersion of the etcd that holds StorageStates and StorageVersionMigrations. It orders the
// reading of a record and the start of a run across processes, so it does not matter who requested a run, or whether a
// StorageVersionMigration did.
//
// Two rules are stricter than they may seem:
//   - A recorded epoch that is still the present one does not prove that nothing happened while no one watched: a
//     server may have come, written and gone. In addition, the traces that servers leave behind must not have grown
//     (Look.Traces).
//   - A recent heartbeat is no excuse. If no one watched and the servers are not the same, Unknown joins after ten
//     seconds just as after ten hours: servers that were replaced once may have been replaced twice. The age of a
//     heartbeat decides nothing here; it tells readers of the record how far they can rely on it.
//
// Assumptions, and what covers for them:
//   - A process that dies before it has an identity Lease and before it is an endpoint leaves nothing to notice; nor, while
//     no one watches, does one that takes its Lease away before it is an endpoint. Such a process lives for a few
//     seconds, during which most kube-apiservers are not ready and receive no requests. Where the StorageVersion API is
//     on, a server publishes before it writes. Only an audit of etcd finds what such a process wrote.
//   - A process writes a built-in resource in one version all its life, and its identity never comes back. A built-in
//     hash that changes under one identity is a doubt.
//   - A process writes a custom resource in the storage version of a generation that it has read. It lags by less than
//     the settle time, and a run does not read its baseline before that has passed.
//   - API servers are restarted after their etcd is restored. The State returns, with everything else in its etcd, to a
//     moment at which it was correct. Its epoch is not that of the servers that live now, which is a doubt. A
//     controller that was running all the time sees more (Look.Restored).
//   - A resource may have an etcd of its own, which is restored while the State stays as it is. Its collection then has
//     a lower resourceVersion, or one that leapt (a bumped revision), or an older witness. One case goes unnoticed:
//     before the first look after the restart of its API servers, the etcd has caught up with the record, and the
//     witness is gone or was not written between the backup and the record. Only an audit of etcd finds that.
//   - Processes behind an APIService are listed in its EndpointSlices and are not watched: if they are not the same, or
//     if a slice has changed, that is a doubt. A slice that came and went as a whole leaves no trace. The EndpointSlice
//     controller adds a slice only for other port numbers, another address family, or more than 100 endpoints. A
//     process that publishes changes its StorageVersion, which is a trace too.
//   - A process that was suspended for longer than its Lease renews the Lease within 10 seconds of resuming. What it
//     wrote until then is noticed at the renewal. A process that writes and dies before the renewal leaves nothing,
//     like one that dies before its first Lease. After an hour its Lease is deleted, and it counts as a new process.
//   - A process that was told to shut down stops writing less than a settle time after its Lease and its address are
//     gone, or else the epoch begins only when the process is silent; package agreement ensures this.
//   - The moment is read after the look has ended (see Look.Moment), and the start of a run is read before the run does
//     anything.
//   - A State is written under the resourceVersion that was read with it, both by the controller and by runs by hand.
package ledger

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Unknown stands among hashes for versions that cannot be determined.
const Unknown = "Unknown"

// Untraced stands among traces if a process may have come and gone without leaving one.
const Untraced = "untraced"

// State is the record of one resource. The zero value records nothing and is treated like a missing State.
type State struct {
	// Persisted are the hashes that stored objects may be encoded in, in order of arrival. Unknown may be among them.
	Persisted []string
	// Current is the hash that all API servers encode in; Unknown while they disagree or one has never answered.
	Current string
	// Heartbeat is when the recorded look began. The record is complete up to then.
	Heartbeat time.Time
	// Epoch is the epoch that the recorded look saw; nil where it saw none.
	Epoch *EpochID
	// Servers are the servers of the recorded look, each with the hash that it showed last.
	Servers []Server
	// Traces are those of the recorded look.
	Traces []string
	// CRD is the CustomResourceDefinition as the recorded look saw it; nil for other resources.
	CRD *CRD
	// Collection is the resource's collection, as it was read last.
	Collection Collection
	// Proven is the part of the last proofs that no doubt voids.
	Proven Proven
	// After is the moment after which a run must have started for its proof to count: an earlier run may have missed
	// something. 0 means that the moment was lost, and no run so far proves anything.
	After uint64
	// OnlyDecodable means that Persisted holds one hash without proof, because every API server declared that it can
	// decode no other version.
	OnlyDecodable bool
}

// Migrated reports whether everything stored is in the current version.
func (s State) Migrated() bool {
	return len(s.Persisted) == 1 && s.Persisted[0] == s.Current && s.Current != Unknown
}

// Server is one process that may write the resource.
type Server struct {
	// ID names the server for users: its Lease's name, or its address.
	ID string
	// Process identifies the process and is never reused: it is the holder of the Lease. If it is empty, the ID takes
	// its place.
	Process string
	// Hash is the storageVersionHash that the server shows. It is empty if the server did not answer or does not serve
	// the resource.
	Hash string
	// Answered means, in a Look, that the server answered it; in a State, that it has answered at least once.
	Answered bool
	// CameBack means that the Lease had expired at the recorded look and is renewed again: the process was suspended.
	// It has no meaning in a State.
	CameBack bool
}

func (s Server) process() string {
	if s.Process != "" {
		return s.Process
	}
	return s.ID
}

// Collection is the position of the etcd that holds a resource. Resources may have an etcd of their own
// (kube-apiserver's --etcd-servers-overrides), which can be restored alone: only their own collection shows that.
type Collection struct {
	// ResourceVersion is that of the collection, read from etcd and not from a cache. 0 means that it was not read or
	// cannot be compared.
	ResourceVersion uint64
	// Witness is an object of the collection. It is zero if there is none or none was read.
	Witness Witness
	// Shared means that the collection is known to be in the etcd that holds the States. It has no meaning in a State.
	Shared bool
}

// Witness is one object at one moment. If the same object has a lower resourceVersion later, etcd was restored, even if
// its revision was bumped or has caught up since.
type Witness struct {
	UID             types.UID
	ResourceVersion uint64
}

// CRD is the part of a CustomResourceDefinition that concerns storage, at one generation.
type CRD struct {
	UID        types.UID
	Generation int64
	// Hash is the hash of the storage version in its spec.
	Hash string
	// Stored are the hashes of status.storedVersions.
	Stored []string
}

// EpochID identifies one uninterrupted period of agreement of the API servers.
type EpochID struct {
	Hash string
	// Processes are sorted.
	Processes []string
	// UID and Generation are those of the CustomResourceDefinition; zero for other resources.
	UID        types.UID
	Generation int64
}

// Same reports whether e and other may be one epoch. Unequal values are two epochs; equal values may still be two
// epochs with an interruption between them.
func (e EpochID) Same(other EpochID) bool {
	return e.Hash == other.Hash && e.UID == other.UID && e.Generation == other.Generation &&
		slices.Equal(e.Processes, other.Processes)
}

// Look is what one look at the API servers saw, and what is known of the time since the recorded look began.
type Look struct {
	// Started is when the look began.
	Started time.Time
	// Servers are all processes that may write the resource, whether they answered or not.
	Servers []Server
	// Epoch is the agreement; nil where there is none.
	Epoch *EpochID
	// CRD is the CustomResourceDefinition; nil for a resource that has none, or none any more.
	CRD *CRD
	// Traces are marks that outlast the processes which leave them: one string for the generation of each EndpointSlice
	// of the resource's API servers (with its UID), and one for each Lease that is no longer renewed (holder and time
	// of the last renewal). Every process that has ended has added one. If Traces is empty or contains Untraced,
	// processes may have left none.
	Traces []string
	// Collection has to be read after Own and Others: a proof trims only under a resourceVersion that the run had
	// reached (see uncompared).
	Collection Collection
	// Shared is that of Collection, as it was read last, and Elsewhere means that the collection is known to be in
	// another etcd. Neither means that this process has not read it.
	Shared, Elsewhere bool
	// Reached is a position of that etcd which this process had read well before the look began: a process may write
	// unseen for ten seconds, after a suspension. It is not greater than Moment, so etcd was not restored since to an
	// earlier one. 0 means that there is none.
	Reached uint64
	// Revisions means that resourceVersions are revisions of an etcd, like those of kube-apiservers. Aggregated API
	// servers may count differently.
	Revisions bool
	// Restored means that a process which ran all the time saw etcd go backwards since the recorded look.
	Restored bool

	// OnlyDecodable means that every server that can write declares, for itself, that it can decode only the version of
	// the epoch.
	OnlyDecodable bool
	// Settled means that the epoch has lasted so long that no process outside of it can still be writing.
	Settled bool

	// Continuous means that Leases, endpoints and CRDs were watched without a gap since the recorded look began, so
	// that Passed and the generations below it are complete. A watch that continues from a resourceVersion has no gap;
	// a watch that lists again has one. Returned clears these three fields, and must clear every other fact that holds
	// only as long as someone watched.
	Continuous bool
	// Passed are the processes that were seen since the recorded look began and are gone. Each is reported until a look
	// with it is recorded.
	Passed []string
	// These are the generations of the CustomResourceDefinition that were seen since the recorded look began.
	CRDs []CRD

	// Moment is the moment after the look ended: everything that the look saw happened before it. It must not come from
	// a cache that may lag. 0 means that it is unknown.
	Moment uint64
	// Own is our own migration of the resource, which the trigger may raise. Others are all others. Both are as they
	// were after the look ended.
	Own    Migration
	Others []Migration
	// Names are the readable versions of hashes, such as "v1". A hash without a name is shown as it is.
	Names map[string]string
}

// Migration is a StorageVersionMigration of the resource. The zero value means that there is none.
type Migration struct {
	// Generation is spec.generation. Completed is the greatest generation whose run has succeeded.
	Generation, Completed int64
	// Started means that a run of Generation has started, and Start is the moment at which it did; 0 if that is
	// unknown.
	Started bool
	Start   uint64
	// Held means that a user does not want it carried out: it is cancelled, or it is not ours and is paused.
	Held bool
	// Failed means that its last attempt failed. It is repeated, but may never succeed.
	Failed bool
	// LeftAlone is the CRD under which the last attempt left objects alone that would have lost fields, or nil. Its UID
	// and Generation are set. The attempt is not repeated soon, unless the CRD has changed.
	LeftAlone *CRD
	// Proof is that of the last run that succeeded, or nil.
	Proof *Proof
}

// exists reports whether there is such a migration.
func (m Migration) exists() bool { return m.Generation > 0 }

// corrected reports whether the CRD has changed since the last attempt left objects alone: another run may be able to
// rewrite them.
func (m Migration) corrected(now *CRD) bool {
	return m.LeftAlone != nil && now != nil && m.Failed &&
		(m.LeftAlone.UID != now.UID || m.LeftAlone.Generation != now.Generation)
}

// pending reports whether a run of the current generation may still prove what s asks for.
func (m Migration) pending(s State) bool {
	return m.Generation > m.Completed && (!m.Started || s.After > 0 && m.Start > s.After)
}

// Proof states what a run that succeeded proves: in this epoch, after it had settled, the run rewrote every object in
// the epoch's hash or found it in that hash.
type Proof struct {
	// Start is the moment that was read before the run, including its checkpoint, was started. 0 means that it is
	// unknown.
	Start uint64
	Epoch EpochID
	// Baseline is the resourceVersion of the collection when the run began to rewrite. 0 means that it is unknown.
	Baseline uint64
	// Observed means that every API server was asked, and not only a shared address.
	Observed bool
}

// Decision says what to do, in the order of its fields.
type Decision struct {
	// Forget means that the resource is gone and its State is to be deleted. No other field applies then.
	Forget bool
	// State is to be recorded before anything else is done.
	State State
	// Doubt says, for users, why Unknown joined now. It is empty if Unknown did not join.
	Doubt string
	// Refused says, for users, why no proof counts. It is empty if one counts, if there is none, or if none is needed.
	Refused string
	// Request is the generation to which our own migration has to be raised, or with which it has to be created; 0
	// means no request. Failed runs need no request: the migration controller repeats them.
	Request int64
	// Reason says, for users, why the migration is needed. It is empty without a Request.
	Reason string
}
