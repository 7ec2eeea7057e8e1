// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger decides what is recorded of how one resource is stored, and when a migration is asked for. It owns
// persistedStorageVersionHashes: nothing else computes them. It is pure: no clock, no I/O, values in and values out,
// and what it returns shares no memory with what it was given that anyone would change.
//
// One function per event: First (a resource without a State), Looked (someone looked at the API servers), Returned
// (the same when no one watched since), Told (a CRD tells servers what to write), Finished (a migration
// succeeded). A resource that is gone is one that a look finds gone.
//
// Invariants:
//   - I1. After a decision is recorded, everything that was written up to the beginning of its look is in Persisted, or
//     is being written by a server that the look shows, or Unknown is in Persisted. Only the record may be relied on:
//     what is decided and not recorded never happened. Every decision is computed from the record before it, so it may
//     be lost, and the next one makes up for it.
//   - I2. Persisted shrinks to the one hash that a proof is about; see refusal. There is one exception, which is not
//     about what is stored but about what can be rewritten: where no server can decode another version, Unknown gives
//     way to the one hash; see decodable.
//   - A State is written before anything that follows from it is asked for. A process that dies in between leaves a
//     State whose After is above the start of every run, and the next look asks again.
//
// How it works: between two recorded looks, someone wrote something. written names every hash that may have been: what
// the servers of both looks show and the storage versions of all generations of the CRD between them. A doubt is
// a reason why there may be more than those; then Unknown joins. If all that may have been written is one hash, nothing
// has happened, whoever was restarted. Otherwise After rises to the present moment: a run that started before may have
// passed the objects already that were written then, and its own looks may have seen the same epoch before and after.
// Epochs of {a, b}, then {a, b, c}, then {a, b} are equal, and so are those of a CRD's generation 3 while a
// server lags behind. Only a run that started later has seen everything, so its start, and not its epoch alone, says
// which run proves something.
//
// A moment is a resourceVersion of the etcd that holds StorageStates and StorageVersionMigrations. It orders the
// reading of a record and the start of a run in whatever process, so it does not matter who asked for a run, or whether
// a StorageVersionMigration did.
//
// Two rules are stricter than what a short description of them says:
//   - A recorded epoch that is still the present one does not by itself say that nothing has happened while no one
//     watched: a server may have come, written and gone. What servers leave behind must not have grown either
//     (Look.Traces).
//   - A young heartbeat is no excuse. Where no one watched and the servers are not the same, Unknown joins after ten
//     seconds as after ten hours: servers that were replaced once may have been replaced twice. So a heartbeat's age
//     decides nothing here; it tells readers of the record how far it can be relied on.
//
// What it takes for granted, and what is done about it:
//   - A process that dies before it has an identity Lease and before it is an endpoint leaves nothing to notice. It
//     lives a few seconds, during which most kube-apiservers are not ready and no client is sent to them. Where the
//     StorageVersion API is on, a server publishes before it writes. What such a process wrote is found by an audit of
//     etcd, and by nothing else.
//   - A process writes a built-in resource in one version all its life, and its identity never comes back. A built-in
//     hash that changes under one identity is a doubt.
//   - A process writes a custom resource in the storage version of a generation that it has read. It is behind by less
//     than the settle time, before which a run does not read its baseline.
//   - API servers are restarted after an etcd is restored. The State goes back with everything that is in its etcd, to
//     a moment at which it held; its epoch is not that of the servers that live now, and that is a doubt. Whoever was
//     there all the time sees more (Look.Restored).
//   - A resource may have an etcd of its own, which is restored while the State stays as it is. Its collection then has
//     a lesser resourceVersion, or has leapt (a bumped revision), or its witness is older. An etcd that has caught up
//     with what was recorded before the first look after its API servers were restarted, and whose witness was not
//     written between the backup and the record or is gone, is not recognised: only an audit of etcd finds that.
//   - Processes behind an APIService are listed in its EndpointSlices, and no one watches them: where they are not the
//     same, or a slice has changed, that is a doubt. A slice that came and went as a whole leaves no trace; the
//     controller of EndpointSlices makes another one only for other port numbers, another family of addresses, or more
//     than 100 endpoints.
//   - A process that was suspended for longer than its Lease and goes on renews it within 10 seconds. What it wrote
//     until then is noticed when it does. One that writes and dies before leaves nothing, as one that dies before its
//     first Lease. After an hour its Lease is gone, and it is a new one.
//   - A process that was told to end writes for less than the settle time after its Lease and its address are gone, or
//     the epoch begins only when it is silent; package agreement sees to that.
//   - The moment is read after the look has ended (see Look.Moment), and the start of a run before anything is done for
//     it.
//   - A State is written under the resourceVersion that was read with it, by the controller and by runs by hand.
package ledger

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Unknown stands among hashes for versions that no one can name.
const Unknown = "Unknown"

// Untraced stands among traces where a process may have come and gone without leaving one.
const Untraced = "untraced"

// State is what is recorded of one resource. The zero value records nothing, and is treated as if there were none.
type State struct {
	// Persisted are the hashes that stored objects may be encoded in, in order of arrival; Unknown may be among them.
	Persisted []string
	// Current is the hash that all API servers encode in; Unknown while they disagree or one has never answered.
	Current string
	// Heartbeat is when the recorded look began: the record is complete up to then.
	Heartbeat time.Time
	// Epoch is the epoch that the recorded look saw; nil where it saw none.
	Epoch *EpochID
	// Servers are those of the recorded look, each with what it showed last.
	Servers []Server
	// Traces are those of the recorded look.
	Traces []string
	// Definition is the CustomResourceDefinition as the recorded look saw it; nil for other resources.
	Definition *Definition
	// Collection is the resource's collection, as it was read last.
	Collection Collection
	// After is the moment after which a run must have started for its proof to count: others may have started before
	// something that they did not see. Where it is lost (0), no run so far proves anything.
	After uint64
	// OnlyDecodable: that Persisted is one hash was not proven; every API server declared that it could decode no other
	// version.
	OnlyDecodable bool
}

// Migrated reports whether everything stored is in the current version.
func (s State) Migrated() bool {
	return len(s.Persisted) == 1 && s.Persisted[0] == s.Current && s.Current != Unknown
}

// Server is one process that may write the resource.
type Server struct {
	// ID names the server for people: its Lease's name, or its address.
	ID string
	// Process identifies the process, and never comes back: the holder of its Lease. Where it is empty the ID stands
	// for it.
	Process string
	// Hash is the storageVersionHash that it shows. Empty: it did not answer, or does not serve the resource.
	Hash string
	// Answered is whether it answered: now, in a Look; ever, in a State.
	Answered bool
	// CameBack says that its Lease had expired at the recorded look and is renewed again: the process was suspended.
	// Meaningless in a State.
	CameBack bool
}

func (s Server) process() string {
	if s.Process != "" {
		return s.Process
	}
	return s.ID
}

// Collection is how far the etcd of a resource has come. Resources may have an etcd of their own (kube-apiserver's
// --etcd-servers-overrides), which is restored alone: only their own collection shows that.
type Collection struct {
	// ResourceVersion is that of the collection, read from etcd and not from a cache; 0: it was not read, or cannot be
	// compared.
	ResourceVersion uint64
	// Witness is an object of the collection; zero: there is none, or none was read.
	Witness Witness
}

// Witness is one object as it was at one moment. The same object with a lesser resourceVersion shows that etcd was
// restored, also where etcd's revision was bumped or has caught up since.
type Witness struct {
	UID             types.UID
	ResourceVersion uint64
}

// Definition is what a CustomResourceDefinition says about storage, at one generation.
type Definition struct {
	UID        types.UID
	Generation int64
	// Hash is that of the storage version in its spec.
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

// Same reports whether a and b may be one epoch. Epochs that are not the same are two; ones that are may have been
// interrupted.
func (e EpochID) Same(other EpochID) bool {
	return e.Hash == other.Hash && e.UID == other.UID && e.Generation == other.Generation &&
		slices.Equal(e.Processes, other.Processes)
}

// Look is what one look at the API servers saw, and what is known of the time since the recorded look began.
type Look struct {
	// Begun is when the look began.
	Begun time.Time
	// Servers are all processes that may write the resource, whether they answered or not.
	Servers []Server
	// Epoch is the agreement; nil where there is none.
	Epoch *EpochID
	// Definition is the CustomResourceDefinition; nil for a resource that has none, or none any more.
	Definition *Definition
	// Traces are what processes leave behind that lasts longer than they do: one string for the generation of each
	// EndpointSlice of the resource's API servers (with its UID), one for each Lease that is no longer renewed (holder
	// and time of the last renewal). A process that was there and is not cannot but add one. Empty, or with Untraced
	// among them: processes may have left none.
	Traces []string
	// Collection is the resource's collection. It has to be read after Migrations were: a proof trims only under a
	// resourceVersion that the run had reached (see refusal).
	Collection Collection
	// Revisions says that resourceVersions are revisions of an etcd, as those of kube-apiservers are. Aggregated API
	// servers may count otherwise.
	Revisions bool
	// Restored says that etcd went backwards since the recorded look, as someone saw who was there all the time.
	Restored bool

	// OnlyDecodable: every server that can write declares that it can decode no version but that of the epoch, each of
	// them for itself.
	OnlyDecodable bool
	// Settled: the epoch has lasted for so long that no one else can be writing.
	Settled bool

	// Continuous says that Leases, endpoints and CRDs were watched without a gap since the recorded look began,
	// so that Passed and CRDs are complete. A watch that goes on from a resourceVersion has no gap; one that
	// lists again has.
	Continuous bool
	// Passed are the processes that were seen since the recorded look began and are gone. Each is reported until a look
	// that does so is recorded.
	Passed []string
	// CRDs are the generations of the CustomResourceDefinition that were seen since the recorded look began.
	Definitions []Definition

	// Moment is the moment after the look ended: whatever the look saw came before. It must not come from a cache that
	// may be behind. 0: not known.
	Moment uint64
	// Own is the migration of the resource that is ours to raise, Others are all others, as they were after the look
	// ended.
	Own    Migration
	Others []Migration
	// Names are the readable versions of hashes: "v1". Hashes without one stand for themselves.
	Names map[string]string
}

// Migration is a StorageVersionMigration of the resource. The zero value says that there is none.
type Migration struct {
	// Generation is spec.generation, Completed the greatest one whose run has succeeded.
	Generation, Completed int64
	// Started says that a run of Generation has started, and Start at which moment; 0 where that is not known.
	Started bool
	Start   uint64
	// Held says that someone does not want it carried out: it is cancelled, or, if it is not ours, paused.
	Held bool
	// Failed says that its last attempt failed. It is repeated, but may never succeed.
	Failed bool
	// Proof is of the run that succeeded last; nil: none.
	Proof *Proof
}

// exists reports whether there is one.
func (m Migration) exists() bool { return m.Generation > 0 }

// pending reports whether a run of its present generation may still prove what s asks for.
func (m Migration) pending(s State) bool {
	return m.Generation > m.Completed && (!m.Started || s.After > 0 && m.Start > s.After)
}

// Proof is what a run that succeeded proves: in this epoch, after it settled, every object was rewritten in its hash or
// found in it.
type Proof struct {
	// Start is the moment that was read before the run, its checkpoint included, was started; 0: not known.
	Start uint64
	Epoch EpochID
	// Baseline is the resourceVersion that the collection had when the run began to rewrite; 0: not known.
	Baseline uint64
}

// Decision is what is to be done, in the order of its fields.
type Decision struct {
	// Forget says that the resource is gone, and its State is to be deleted. Nothing else applies then.
	Forget bool
	// State is to be recorded before anything else is done.
	State State
	// Doubt is why Unknown joined now, for people; empty: it did not.
	Doubt string
	// Refused is why no proof counts, for people; empty: one does, or there is none, or none is needed.
	Refused string
	// Request is the generation to raise our own migration to, or to create it with; 0: there is nothing to ask for.
	// A failed run is repeated by its own controller and needs no request.
	Request int64
	// Reason is why the migration is needed, for people; empty without a Request.
	Reason string
}
