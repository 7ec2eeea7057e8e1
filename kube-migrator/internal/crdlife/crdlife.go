// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package crdlife upgrades a CustomResourceDefinition to a new release of it, even if the new release drops versions
// in which objects are stored.
//
// The package owns the order of the steps, the intermediate CRD, and the reasons to refuse. Its plan is a pure function
// of the CRD in the cluster, the CRD in the file, and what may be stored. Run computes the plan again after every step,
// so the next run finishes what an interrupted one has left. The package does not migrate objects (Run.Migrate does),
// and reads only their metadata (I9).
//
// Invariants:
//   - A version is removed from a CRD only after the same run has proven that nothing is stored in it (I2), and once no
//     managedFields entry names it. Until then the CRD in the cluster has every version in which an object may be
//     stored.
//   - The precondition of every write to a CRD is the UID and the resourceVersion of the CRD for which the plan was
//     made.
//   - The last CRD that is applied is the one in the file, unchanged.
package crdlife

import (
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

// Intent is what a user asks for.
type Intent struct {
	// Program is the name of the program, and Again is the command that the user gave, for the commands that errors
	// suggest.
	Program, Again string
	// AcceptFieldLoss are the names of the CRDs whose objects may lose fields that the new release does not have.
	AcceptFieldLoss []string
	// AcceptOtherMeaning are the names of the CRDs whose objects may be converted although no version is in both releases.
	AcceptOtherMeaning []string
}

// Facts are what was found in the cluster about one CRD.
type Facts struct {
	// Live is the CRD in the cluster, or nil if there is none.
	Live *CRD
	// Recorded are the versions in the StorageState. Unknown means that it also contains Unknown, or that there is none and
	// another manager than kube-migrator has written status.storedVersions.
	Recorded []string
	Unknown  bool
	// Unreadable says why the objects could not be listed; otherwise it is empty.
	Unreadable string
	// Found is what the metadata of all objects shows; it is zero if the plan does not depend on it.
	Found Found
	// Dependents are, for each version that is served and will not be, the objects whose ownerReferences name it.
	Dependents map[string]retire.Dependents
	// Proven means that this run has proven that every object is stored in the storage version of Live, and that Live
	// has not changed since.
	Proven bool
}

// StepName is one of the constants below.
type StepName string

// The steps in their order.
const (
	Create       StepName = "create"        // create the CRD, which the cluster does not have yet
	Apply        StepName = "apply"         // apply the CRD in the file as it is
	Unhook       StepName = "unhook"        // remove a conversion webhook that fails, and that the CRD in the file does not have
	Intermediate StepName = "intermediate"  // apply the CRD in the file with the versions that are still stored, unserved
	Migrate      StepName = "migrate"       // rewrite every object in the storage version
	Prune        StepName = "prune"         // reduce status.storedVersions to the storage version
	Owned        StepName = "managedFields" // move the managedFields entries that name a dropped version
)

// Step is one step of a plan, or of its execution.
type Step struct {
	Name StepName `json:"name"`
	// What says in a few words what the step will do, or what it has done.
	What string `json:"what"`
}

// Plan contains the steps, in their order. If Refusal is set, there are none.
type Plan struct {
	Steps []Step
	// Keep is the result of the function Keep.
	Keep []string
	// Losses are the objects that would lose fields.
	Losses  pruning.Losses
	Refusal *refusal.Error
}

// All reasons to refuse.
const (
	// the CRD in the file has an obvious mistake: no storage version, or a webhook without an address
	Invalid     refusal.Reason = "Invalid"
	Legacy      refusal.Reason = "Legacy"      // the CRD in the file is of apiextensions.k8s.io/v1beta1
	Terminating refusal.Reason = "Terminating" // the CRD in the cluster is being deleted
	Stranded    refusal.Reason = "Stranded"    // objects may be stored in a version that neither CRD has
	Unreadable  refusal.Reason = "Unreadable"  // the API server cannot list the objects
	// no version is in both CRDs, so no release shows how objects are converted
	NothingInCommon refusal.Reason = "NothingInCommon"
	FieldLoss       refusal.Reason = "FieldLoss" // objects would lose fields
	// ownerReferences name a version that will not be served
	HasDependents refusal.Reason = retire.HasDependents
	// ownerReferences of some resources could not be read
	UnreadOwners refusal.Reason = retire.UnreadOwners
	Conflict     refusal.Reason = "Conflict" // another field manager owns fields that would change
)
