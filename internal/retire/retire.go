// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package retire takes a version of a custom resource out of a cluster: no object is stored in it, no managedFields
// entry names it, and then it is not served, and is not in its CRD any more.
//
// It owns the order of the steps, the reasons why a version may not be retired, and the writes to spec.versions. Its
// plan is a pure function over a Intent and Facts. It never migrates (Run.Migrate does), and never reads more of an
// object than its metadata (I9).
//
// Invariants:
//   - A version leaves a CRD only after a proof, made by the same run, that nothing is stored in it (I2).
//   - Every write has a resourceVersion as its precondition, and is judged by what it overwrites. Nothing else of a CRD
//     is touched, and of an object its managedFields alone.
//   - A managedFields entry is moved to another version, never taken from its manager: server-side apply keeps its
//     owners.
//   - Every step finds out by itself whether it is done: after any interruption the same command goes on.
package retire

import (
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/refusal"
)

// Intent is what a user asks for.
type Intent struct {
	// Program is what the program is called, for commands to try.
	Program string
	// Version is the one to retire.
	Version string
	// Unserve sets served: false, Remove takes the version out of spec.versions.
	Unserve, Remove bool
	// Rescue brings the version back, unserved, for objects that cannot be read without it, and removes it again at the
	// end.
	Rescue bool
}

// removes reports whether the version is to be out of the CRD at the end.
func (want Intent) removes() bool { return want.Remove || want.Rescue }

// Facts are what was found in the cluster.
type Facts struct {
	CRD *crd.CRD
	// Begun are versions of the CRD that were found in it before, and whose retirement was begun.
	Begun []string
	// Running names the migrations of the resource that others are carrying out.
	Running []string
	// Unreadable is what the API server says where the objects cannot be listed; empty where they can.
	Unreadable string
	// Objects is how many there are, and Owners who owns fields in the version; zero where Unreadable.
	Objects int64
	Owners  Owners
}

// Owners are the field managers whose managedFields entries name a version.
type Owners struct {
	// Objects is how many objects have such entries.
	Objects int64 `json:"objects"`
	// Managers are who made them, the most frequent first.
	Managers []Manager `json:"managers,omitempty"`
}

// Manager is one field manager.
type Manager struct {
	Name      string `json:"name"`
	Operation string `json:"operation"`
	// Objects is how many objects have an entry of it that names the version.
	Objects int64 `json:"objects"`
}

// StepName names a step; a closed set.
type StepName string

// The steps, in their order.
const (
	Restore StepName = "restore"       // the version is in spec.versions, unserved, and in status.storedVersions
	Migrate StepName = "migrate"       // every object is stored in the storage version
	Prune   StepName = "prune"         // status.storedVersions names the storage version alone
	Owned   StepName = "managedFields" // no managedFields entry names the version
	Unserve StepName = "unserve"       // the version is not served
	Remove  StepName = "remove"        // the version is not in spec.versions
)

// State is how far a step is; a closed set.
type State string

// The states.
const (
	Todo     State = "Todo"
	Done     State = "Done"     // found done, or done by this run
	NotAsked State = "NotAsked" // no one asked for it
)

// Step is one step of a plan, or of its execution.
type Step struct {
	Name  StepName `json:"name"`
	State State    `json:"state"`
	// What says in a few words what is to be done, or was.
	What string `json:"what"`
}

// Plan is what is to be done, in its order.
type Plan struct {
	Steps []Step
}

// finished reports whether nothing is to be done.
func (p Plan) finished() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.State == Todo })
}

// The reasons to refuse; a closed set.
const (
	UnknownVersion refusal.Reason = "UnknownVersion" // the CRD does not have it, and nothing names it
	StorageVersion refusal.Reason = "StorageVersion" // objects are written in it
	OnlyVersion    refusal.Reason = "OnlyVersion"    // there is no other
	NotEstablished refusal.Reason = "NotEstablished" // the CRD is not accepted, or is being deleted
	StoredUnknown  refusal.Reason = "StoredUnknown"  // another version may be stored that the CRD does not have
	Unreadable     refusal.Reason = "Unreadable"     // there are objects that the API server cannot read
	StillServed    refusal.Reason = "StillServed"    // it is to be removed and is served
	NothingServed  refusal.Reason = "NothingServed"  // no other version is served
	MigrationRuns  refusal.Reason = "MigrationRuns"  // someone else rewrites the objects
	NotStranded    refusal.Reason = "NotStranded"    // it is to be rescued and was not removed
	Changed        refusal.Reason = "Changed"        // the CRD is not any more what the plan was made for
)
