// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package crdupgrade upgrades a CustomResourceDefinition to a new release of it, even if the new release drops versions
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
package crdupgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// CRD is a CustomResourceDefinition, from a file or from the cluster.
type CRD struct {
	// From names the file and document. It is empty for a CRD from the cluster.
	From string
	crd.CRD

	manifest upgrade.Manifest
	object   map[string]any
}

// Parse reads a CustomResourceDefinition of apiextensions.k8s.io/v1.
func Parse(from string, raw []byte) (*CRD, error) {
	c := &CRD{From: from}
	var err error
	if c.manifest, err = upgrade.ParseManifest(raw); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &c.CRD); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers are written as they were read
	if err := decoder.Decode(&c.object); err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	return c, nil
}

// Name returns the name of the CRD.
func (c *CRD) Name() string { return c.manifest.Name }

// Resource returns the resource that the CRD defines.
func (c *CRD) Resource() schema.GroupResource { return c.manifest.Resource() }

// Versions returns the names in spec.versions.
func (c *CRD) Versions() []string {
	names := make([]string, len(c.Spec.Versions))
	for i, v := range c.Spec.Versions {
		names[i] = v.Name
	}
	return names
}

func (c *CRD) has(version string) bool { return slices.Contains(c.Versions(), version) }

// Endpoint returns the version at which objects are read and written: the storage version if it is served, otherwise
// the first served version, otherwise "".
func (c *CRD) Endpoint() (endpoint string) {
	for _, v := range c.Spec.Versions {
		if v.Served && (endpoint == "" || v.Storage) {
			endpoint = v.Name
		}
	}
	return endpoint
}

// Intent is what a user asks for.
type Intent struct {
	// Program is the name of the program, and Again is the command that the user gave, for the commands that errors
	// suggest.
	Program, Again string
	// AcceptFieldLoss are migrate.Options.AcceptFieldLoss. Any of them means that objects may lose fields that the new
	// version does not have.
	AcceptFieldLoss []string
}

// Facts are what was found in the cluster about one CRD.
type Facts struct {
	// Live is the CRD in the cluster, or nil if there is none.
	Live *CRD
	// Recorded are the versions in the StorageState. Unknown means that it also contains Unknown.
	Recorded []string
	Unknown  bool
	// Unreadable says why the objects could not be listed; otherwise it is empty.
	Unreadable string
	// Found is what the metadata of all objects shows; it is zero if the plan does not depend on it.
	Found Found
	// Proven means that this run has proven that every object is stored in the storage version of Live, and that Live
	// has not changed since.
	Proven bool
}

// Found is what the metadata of all objects shows.
type Found struct {
	Objects int64
	// Naming counts, for each version, the objects whose managedFields name it.
	Naming map[string]int64
	// Losses are the result of the function Losses, with counts.
	Losses []Loss
}

// StepName is one of the constants below.
type StepName string

// The steps in their order.
const (
	Create       StepName = "create"        // create the CRD, which the cluster does not have yet
	Apply        StepName = "apply"         // apply the CRD in the file as it is
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
	// Losses are the fields that objects would lose.
	Losses  []Loss
	Refusal *refusal.Error
}

// All reasons to refuse.
const (
	// the CRD in the file has an obvious mistake: no storage version, or a webhook without an address
	Invalid     refusal.Reason = "Invalid"
	Terminating refusal.Reason = "Terminating" // the CRD in the cluster is being deleted
	Stranded    refusal.Reason = "Stranded"    // objects may be stored in a version that neither CRD has
	Unreadable  refusal.Reason = "Unreadable"  // the API server cannot list the objects
	// no version is in both CRDs, so no release shows how objects are converted
	NothingInCommon refusal.Reason = "NothingInCommon"
	FieldLoss       refusal.Reason = "FieldLoss" // objects would lose fields
	Conflict        refusal.Reason = "Conflict"  // another field manager owns fields that would change
)
