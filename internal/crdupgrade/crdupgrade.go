// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package crdupgrade takes a CustomResourceDefinition to its next release, also where that drops versions in which
// objects are stored.
//
// It owns the order of the steps, the CRD that is applied in between, and the reasons to refuse. Its plan is a pure
// function of the CRD in the cluster, the CRD of the file and what may be stored; Run computes it again after every
// step, so a run that died anywhere is finished by the next. It never migrates (Run.Migrate does), and never reads more
// of an object than its metadata (I9).
//
// Invariants:
//   - A version leaves a CRD only after a proof, made by the same run, that nothing is stored in it (I2), and after no
//     managedFields entry names it. Until then the CRD in the cluster has every version that an object may be stored
//     in.
//   - Every write to a CRD has the UID and the resourceVersion that the plan was made for as its precondition.
//   - The last CRD that is applied is the one of the file, unchanged.
package crdupgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
)

// CRD is a CustomResourceDefinition: one of a file, or the one in the cluster.
type CRD struct {
	// From names the file and document; empty for the one in the cluster.
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

// Name is that of the CRD.
func (c *CRD) Name() string { return c.manifest.Name }

// Resource is the resource that the CRD defines.
func (c *CRD) Resource() schema.GroupResource { return c.manifest.Resource() }

// Versions are the names of spec.versions.
func (c *CRD) Versions() []string {
	names := make([]string, len(c.Spec.Versions))
	for i, v := range c.Spec.Versions {
		names[i] = v.Name
	}
	return names
}

func (c *CRD) has(version string) bool { return slices.Contains(c.Versions(), version) }

// Endpoint is the version at which objects are read and written: the storage version where that is served, else the
// first that is; empty where the CRD serves none.
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
	// Program is what the program is called, and Again this command, for commands to try.
	Program, Again string
	// AcceptFieldLoss: objects may lose the fields that their new version does not have.
	AcceptFieldLoss bool
}

// Facts are what was found in the cluster about one CRD.
type Facts struct {
	// Live is the CRD in the cluster; nil where there is none.
	Live *CRD
	// Recorded are the versions that the StorageState records; Unknown: it records that there may be others.
	Recorded []string
	Unknown  bool
	// Unreadable says why the objects could not be listed; empty where they could.
	Unreadable string
	// Found is what the metadata of all objects shows; zero where nothing depends on it.
	Found Found
	// Proven: this run has proven that every object is stored in the storage version of Live, as Live is now.
	Proven bool
}

// Found is what the metadata of all objects shows.
type Found struct {
	Objects int64
	// Naming counts, for each version, the objects whose managedFields name it.
	Naming map[string]int64
	// Losses are those that Losses returned, with their counts.
	Losses []Loss
}

// StepName names a step; a closed set.
type StepName string

// The steps, in their order.
const (
	Create       StepName = "create"        // the cluster does not have the CRD yet
	Apply        StepName = "apply"         // the CRD of the file, as it is
	Intermediate StepName = "intermediate"  // the CRD of the file, and the versions that are still stored, unserved
	Migrate      StepName = "migrate"       // every object is stored in the storage version
	Prune        StepName = "prune"         // status.storedVersions names the storage version alone
	Owned        StepName = "managedFields" // no managedFields entry names a version that goes
)

// Step is one step of a plan, or of its execution.
type Step struct {
	Name StepName `json:"name"`
	// What says in a few words what is to be done, or was.
	What string `json:"what"`
}

// Plan is what is to be done, in its order; without steps where Refusal says why not.
type Plan struct {
	Steps []Step
	// Keep are the versions that the file does not have and that objects may be stored in, or managedFields may name.
	Keep []string
	// Losses are the fields that objects would lose.
	Losses  []Loss
	Refusal *refusal.Error
}

// The reasons to refuse; a closed set.
const (
	// the file cannot be meant: no storage version, a webhook without an address
	Invalid     refusal.Reason = "Invalid"
	Terminating refusal.Reason = "Terminating" // the CRD in the cluster is being deleted
	Stranded    refusal.Reason = "Stranded"    // objects may be stored in a version that neither CRD has
	Unreadable  refusal.Reason = "Unreadable"  // the API server cannot list the objects
	// no version is in both CRDs, so no release says how objects are converted
	NothingInCommon refusal.Reason = "NothingInCommon"
	FieldLoss       refusal.Reason = "FieldLoss" // objects would lose fields
	Conflict        refusal.Reason = "Conflict"  // another field manager owns what is to be changed
)
