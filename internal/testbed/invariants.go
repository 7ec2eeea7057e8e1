// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/testbed/content"
)

const crdsPrefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

// CRD contains the parts of a CustomResourceDefinition that the invariants concern.
type crd struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind   string `json:"kind"`
			Plural string `json:"plural"`
		} `json:"names"`
		Versions []struct {
			Name    string `json:"name"`
			Storage bool   `json:"storage"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string `json:"storedVersions"`
	} `json:"status"`
}

// prefix returns the prefix under which the objects are stored.
func (d *crd) prefix() string {
	return "/registry/" + d.Spec.Group + "/" + d.Spec.Names.Plural + "/"
}

func (d *crd) kind() Kind {
	return Kind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind, Plural: d.Spec.Names.Plural, Prefix: d.prefix()}
}

// storage returns the apiVersion in which objects are written.
func (d *crd) storage() string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return d.Spec.Group + "/" + v.Name
		}
	}
	return ""
}

// CheckInvariants compares, as of one moment, the contents of etcd with the status of every CustomResourceDefinition:
// status.storedVersions names every version that an object is stored in (I1), and is never empty nor without the
// storage version (I2); where it has a StorageState, that accounts for every object together with the storage version,
// which the API servers show (I1). In a cluster of New, no object has lost a field since then that no client removed (I3),
// unless the test has declared it (Loses). Encrypted objects cannot be looked into. It needs no API server, and starts
// etcd if a test has left it stopped. The error names every violation.
func (c *Cluster) CheckInvariants(ctx context.Context) error {
	if !c.Etcd.Running() {
		if err := c.Etcd.Start(ctx); err != nil {
			return fmt.Errorf("check invariants: %w", err)
		}
	}
	var crds []crd
	var violations []error
	revision, err := c.eachRaw(ctx, crdsPrefix, 0, func(key string, value []byte, _ int64) {
		if strings.HasPrefix(storedVersion(value), "enc:") {
			return // and so are its objects, for only a wildcard encrypts CRDs
		}
		var d crd
		if err := json.Unmarshal(value, &d); err != nil {
			violations = append(violations, fmt.Errorf("decode %s: %w", key, err))
			return
		}
		crds = append(crds, d)
	})
	if err != nil {
		return fmt.Errorf("check invariants: %w", err)
	}
	states, err := c.storedStates(ctx, revision)
	if err != nil {
		return fmt.Errorf("check invariants: %w", err)
	}
	for _, d := range crds {
		held := map[string]int{}
		_, err := c.eachRaw(ctx, d.prefix(), revision,
			func(_ string, value []byte, _ int64) { held[storedVersion(value)]++ })
		if err != nil {
			return fmt.Errorf("check invariants: %w", err)
		}
		violations = append(violations, violationsOf(&d, held)...)
		if claimed, ok := states[d.kind().Name()]; ok {
			truth := Truth{Held: held, Claimed: claimed, kind: d.kind()}
			for _, version := range truth.Uncovered(d.kind().Hash(d.storage())) {
				violations = append(violations, fmt.Errorf("I1 violated: %s: etcd holds %d objects as %s, the "+
					"StorageState claims %v",
					d.Metadata.Name, held[version], version, claimed))
			}
		}
	}
	return errors.Join(append(violations, c.checkContents(ctx)...)...)
}

// compareContents compares the contents of every write with what etcd held before, from the cluster's start on.
func (c *Cluster) compareContents() {
	for _, e := range c.etcds() {
		e.contents = content.NewWatch(e.client)
		e.contents.Begin(c.lifetime, 1)
		c.atStop(e.contents.Stop)
	}
}

// loss is one that a test has declared.
type loss struct{ prefix, path, reason string }

// Loses declares that objects below a prefix in etcd lose a field, such as "spec.hosts[].port", and why this is right
// in this test. Without a path, they may lose any field. CheckInvariants reports every other loss, and a declared one
// that has not happened.
func (c *Cluster) Loses(prefix, path, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = append(c.losses, loss{prefix, path, reason})
}

// checkContents returns what is wrong with the contents of etcd (I3).
func (c *Cluster) checkContents(ctx context.Context) (violations []error) {
	c.mu.Lock()
	declared := slices.Clone(c.losses)
	c.mu.Unlock()
	happened := make([]bool, len(declared))
	for _, e := range c.etcds() {
		if e.contents == nil {
			continue
		}
		if err := e.contents.End(ctx); err != nil {
			violations = append(violations, fmt.Errorf("check invariants: %w", err))
		}
		for _, l := range e.contents.Losses() {
			i := slices.IndexFunc(declared,
				func(d loss) bool { return strings.HasPrefix(l.Key, d.prefix) && (d.path == "" || d.path == l.Path) })
			if i < 0 {
				violations = append(violations, fmt.Errorf("I3 violated: %v, and no client has changed the object", l))
			} else {
				happened[i] = true
			}
		}
		e.contents.Begin(c.lifetime, e.contents.Next())
	}
	for i, d := range declared {
		if !happened[i] {
			violations = append(violations, fmt.Errorf("no object below %s has lost %s, although the test declares "+
				"it: %s", d.prefix, cmp.Or(d.path, "a field"), d.reason))
		}
	}
	return violations
}

// violationsOf judges one CRD; held counts its objects by stored version.
func violationsOf(d *crd, held map[string]int) []error {
	var violations []error
	claimed := d.Status.StoredVersions
	if len(claimed) == 0 {
		violations = append(violations, fmt.Errorf("I2 violated: %s: status.storedVersions is empty", d.Metadata.Name))
	}
	for _, v := range d.Spec.Versions {
		if v.Storage && !slices.Contains(claimed, v.Name) {
			violations = append(violations, fmt.Errorf("I2 violated: %s: status.storedVersions %v lacks the storage "+
				"version %s",
				d.Metadata.Name, claimed, v.Name))
		}
	}
	for _, stored := range slices.Sorted(maps.Keys(held)) {
		if strings.HasPrefix(stored, "enc:") {
			continue
		}
		version, ok := strings.CutPrefix(stored, d.Spec.Group+"/")
		if !ok || !slices.Contains(claimed, version) {
			violations = append(violations, fmt.Errorf("I1 violated: %s: etcd holds %d objects as %s, "+
				"status.storedVersions is %v",
				d.Metadata.Name, held[stored], stored, claimed))
		}
	}
	return violations
}
