// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storedversions

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/compare"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

func live(uid string, generation int64, storage string, stored ...string) *crd.CRD {
	d := new(crd.CRD)
	d.Metadata.UID, d.Metadata.Generation = "uid-"+"a", generation
	if uid != "" {
		d.Metadata.UID = "uid-b"
	}
	for _, name := range []string{"v1", "v2", "v3"} {
		d.Spec.Versions = append(d.Spec.Versions, crd.Version{Name: name, Storage: name == storage})
	}
	d.Status.StoredVersions = stored
	return d
}

// claimed has storedVersions that someone has written by hand.
func claimed(d *crd.CRD) *crd.CRD {
	d.Metadata.ManagedFields = append(d.Metadata.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-patch",
		Subresource: "status", FieldsV1: pruning.NewFields(`{"f:status":{"f:storedVersions":{}}}`)})
	return d
}

func TestStoredVersionsArePrunedOnlyUnderTheirProof(t *testing.T) {
	proof := Proof{Name: "widgets.demo.example.com", UID: "uid-a", Generation: 3, StorageVersion: "v2"}
	without := func(change func(*Proof)) Proof {
		p := proof
		change(&p)
		return p
	}
	for name, test := range map[string]struct {
		live    *crd.CRD
		proof   Proof
		want    []string
		changed bool
		fails   bool
	}{
		"an old version is pruned": {live: live("", 3, "v2", "v1", "v2"),
			proof: proof, want: []string{"v2"}},
		"the order does not matter": {live: live("", 3, "v2", "v2", "v1"),
			proof: proof, want: []string{"v2"}},
		"what is pruned already is left alone": {live: live("", 3, "v2", "v2"), proof: proof},
		"what another one has claimed is written again": {live: claimed(live("", 3, "v2", "v2")),
			proof: proof, want: []string{"v2"}},
		"another object of the same name is not touched": {live: live("b", 3, "v2", "v1", "v2"), proof: proof,
			changed: true, fails: true},
		"a spec that was written since is not touched": {live: live("", 4, "v2", "v1", "v2"), proof: proof,
			changed: true, fails: true},
		"a storage version that moved is not touched": {live: live("", 3, "v3", "v1", "v2", "v3"), proof: proof,
			changed: true, fails: true},
		"a CRD without a storage version": {live: live("", 3, "", "v1", "v2"), proof: proof,
			changed: true, fails: true},
		"a proof without a name proves nothing": {live: live("", 3, "v2", "v1", "v2"),
			proof: without(func(p *Proof) { p.Name = "" }), fails: true},
		"a proof without a UID proves nothing": {live: live("", 3, "v2", "v1", "v2"),
			proof: without(func(p *Proof) { p.UID = "" }), fails: true},
		"a proof without a generation proves nothing": {live: live("", 0, "v2", "v1", "v2"),
			proof: without(func(p *Proof) { p.Generation = 0 }), fails: true},
		"a proof without a version proves nothing": {live: live("", 3, "", "v1"),
			proof: without(func(p *Proof) { p.StorageVersion = "" }), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			next, err := decide(test.live, test.proof)
			if (err != nil) != test.fails || errors.Is(err, ErrChanged) != test.changed {
				t.Errorf("error %v, want one: %v, ErrChanged: %v", err, test.fails, test.changed)
			}
			if diff := compare.Diff(test.want, next); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhateverIsLiveOnlyTheProvenStorageVersionIsEverWritten(t *testing.T) {
	for seed := range uint64(10_000) {
		draw := rand.New(rand.NewPCG(seed, 0))
		version := func() string { return []string{"", "v1", "v2", "v3"}[draw.IntN(4)] }
		proof := Proof{Name: "n", UID: "uid-a", Generation: draw.Int64N(3), StorageVersion: version()}
		var stored []string
		for range draw.IntN(4) {
			stored = append(stored, version())
		}
		d := live([]string{"", "b"}[draw.IntN(2)], draw.Int64N(3), version(), stored...)
		next, err := decide(d, proof)
		if next == nil {
			continue
		}
		if err != nil || proof.StorageVersion == "" || !slices.Equal(next, []string{proof.StorageVersion}) ||
			d.StorageVersion() != proof.StorageVersion || d.Metadata.UID != proof.UID ||
			d.Metadata.Generation != proof.Generation {
			t.Fatalf("seed %d: decide(%+v, %+v) = %v, %v", seed, d, proof, next, err)
		}
	}
}
