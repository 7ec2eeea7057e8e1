// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package retire removes a version of a custom resource from a cluster. At the end no object is stored in the version,
// no managedFields entry names it, the API server does not serve it, and the CRD does not have it.
//
// The package owns the order of the steps, the reasons why a version may not be retired, and the writes to
// spec.versions. Its plan is a pure function of an Intent and Facts. The package does not migrate objects (Run.Migrate
// does), and reads only their metadata (I9).
//
// Invariants:
//   - A version is removed from a CRD only after the same run has proven that nothing is stored in it (I2).
//   - The precondition of every write is the resourceVersion of the object from which the write was decided. A write to
//     a CRD changes spec.versions or status.storedVersions, a write to another object changes only its managedFields or
//     the apiVersion of its ownerReferences.
//   - No write drops a field of an object, unless the user accepts that (I3).
//   - A managedFields entry gets another version and keeps its manager, so server-side apply still knows the owners.
//   - A version with dependents stays served, unless the user decides otherwise: the garbage collector needs it.
//   - Every step finds out by itself whether it is done: after an interruption, the same command continues.
package retire

import (
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// Intent is what a user asks for.
type Intent struct {
	// Program is the name of the program, for the commands that errors suggest.
	Program string
	// Version is the version to retire.
	Version string
	// Unserve sets served: false, Remove removes the version from spec.versions.
	Unserve, Remove bool
	// Rescue adds the version again, unserved, because there are objects that cannot be read without it, and removes it
	// at the end.
	Rescue bool
	// FixOwners moves ownerReferences that name the version. LeaveOwners goes on where some may be left.
	FixOwners, LeaveOwners bool
	// AcceptFieldLoss are migrate.Options.AcceptFieldLoss, for every write to an object.
	AcceptFieldLoss []string
}

// removes reports whether the version is to be gone from the CRD at the end.
func (want Intent) removes() bool { return want.Remove || want.Rescue }

// Facts are what was found in the cluster.
type Facts struct {
	CRD *crd.CRD
	// Attempted are the versions that the CRD had when a retirement of them was started on this machine.
	Attempted []string
	// Running names the migrations of the resource that other processes carry out.
	Running []string
	// Unreadable is the API server's message if it cannot list the objects; otherwise it is empty.
	Unreadable string
	// Objects is the number of objects, and Owners are the owners of fields in the version. Both are zero if Unreadable
	// is set.
	Objects int64
	Owners  Owners
	// Losses are the objects that would lose fields. They are empty if Unreadable is set.
	Losses Losses
	// Dependents are the objects whose ownerReferences name the version.
	Dependents Dependents
}

// Owners are the field managers whose managedFields entries name a version.
type Owners struct {
	// Objects is how many objects have such entries.
	Objects int64 `json:"objects"`
	// Managers are the field managers of these entries, the most frequent first.
	Managers []Manager `json:"managers,omitempty"`
}

// Manager is one field manager.
type Manager struct {
	Name      string `json:"name"`
	Operation string `json:"operation"`
	// Objects is how many objects have an entry of this manager that names the version.
	Objects int64 `json:"objects"`
}

// StepName is one of the constants below.
type StepName string

// The steps in their order, each with what holds once it is done.
const (
	Restore  StepName = "restore"       // the version is in spec.versions, unserved, and in status.storedVersions
	Migrate  StepName = "migrate"       // every object is stored in the storage version
	Prune    StepName = "prune"         // status.storedVersions names the storage version alone
	Owned    StepName = "managedFields" // no managedFields entry names the version
	Pointing StepName = "dependents"    // no ownerReference names the version
	Unserve  StepName = "unserve"       // the version is not served
	Remove   StepName = "remove"        // the version is not in spec.versions
)

// State is the state of a step: one of the constants below.
type State string

// The states.
const (
	Todo     State = "Todo"
	Done     State = "Done"     // it was done before, or this run has done it
	NotAsked State = "NotAsked" // the user did not ask for it
)

// Step is one step of a plan, or of its execution.
type Step struct {
	Name  StepName `json:"name"`
	State State    `json:"state"`
	// What says in a few words what the step will do or, if it is Done, what it has done.
	What string `json:"what"`
}

// Plan contains all steps, in their order.
type Plan struct {
	Steps []Step
}

// finished reports whether there is nothing left to do.
func (p Plan) finished() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.State == Todo })
}

// All reasons to refuse.
const (
	UnknownVersion refusal.Reason = "UnknownVersion" // the CRD does not have the version, and nothing names it
	StorageVersion refusal.Reason = "StorageVersion" // objects are written in it
	OnlyVersion    refusal.Reason = "OnlyVersion"    // the CRD has no other version
	NotEstablished refusal.Reason = "NotEstablished" // the CRD is not accepted, or is being deleted
	StoredUnknown  refusal.Reason = "StoredUnknown"  // objects may be stored in another version that the CRD does not have
	Unreadable     refusal.Reason = "Unreadable"     // there are objects that the API server cannot read
	StillServed    refusal.Reason = "StillServed"    // the version to remove is still served
	NothingServed  refusal.Reason = "NothingServed"  // no other version is served
	MigrationRuns  refusal.Reason = "MigrationRuns"  // another process rewrites the objects
	NotStranded    refusal.Reason = "NotStranded"    // the version to rescue was not removed
	HasDependents  refusal.Reason = "HasDependents"  // ownerReferences name the version, which would not be served
	UnreadOwners   refusal.Reason = "UnreadOwners"   // ownerReferences of some resources could not be read
	FieldLoss      refusal.Reason = "FieldLoss"      // objects would lose fields
	Changed        refusal.Reason = "Changed"        // the CRD has changed since the plan was made
)
