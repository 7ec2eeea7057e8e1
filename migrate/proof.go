// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// Proof says that every object of one custom resource is stored in the storage version of its
// CustomResourceDefinition. It holds until the CustomResourceDefinition changes. Only Sweep.Proof makes one; the zero
// value proves nothing.
type Proof struct{ of storedversions.Proof }

// ErrNoProof reports that a sweep has not proven what Sweep.Proof or PruneStoredVersions needs.
var ErrNoProof = errors.New("not proven")

// ErrCRDChanged reports that the CustomResourceDefinition is no longer the one of a Proof: it was changed, deleted or
// created again. The Proof is void, and another sweep is needed.
var ErrCRDChanged = storedversions.ErrChanged

// Proof returns what the sweep has proven about a custom resource. The error is ErrNoProof unless Run has returned nil,
// and in a dry run, which proves nothing.
func (s *Sweep) Proof() (Proof, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proof == (storedversions.Proof{}) {
		return Proof{}, ErrNoProof
	}
	return Proof{of: s.proof}, nil
}

// PruneStoredVersions removes from status.storedVersions of a CustomResourceDefinition every version but the storage
// version, so that the others can be removed from spec.versions. It returns the versions that it removed.
//
// Nothing is written if the CustomResourceDefinition is not the one of the proof (ErrCRDChanged), or if it changes
// between reading and writing: then PruneStoredVersions decides again, a few times. After any other error, call it again
// with the same proof.
//
// The account of config needs get on the CustomResourceDefinition, and patch on its status.
func PruneStoredVersions(ctx context.Context, config *rest.Config, proof Proof) (removed []string, err error) {
	if proof == (Proof{}) {
		return nil, fmt.Errorf("prune stored versions: %w", ErrNoProof)
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	result, err := storedversions.Prune(ctx, client, proof.of)
	if err != nil || !result.Written {
		return nil, err
	}
	for _, version := range result.Before {
		if version != proof.of.StorageVersion {
			removed = append(removed, version)
		}
	}
	return removed, nil
}

// proofOf returns what a complete sweep in an epoch proves about a custom resource with that CRD, or the zero value: the
// servers have to write the storage version of that very CRD (I2). It is pure.
func proofOf(target Target, epoch Epoch, d *pruning.CRD) storedversions.Proof {
	if d.UID != epoch.CRDUID || d.Generation != epoch.CRDGeneration || d.Storage() == nil {
		return storedversions.Proof{}
	}
	version := d.Storage().Name
	kind := target.GroupResource().WithVersion(version).GroupVersion().WithKind(target.Kind)
	if storageversion.Hash(kind) != epoch.Hash {
		return storedversions.Proof{}
	}
	return storedversions.Proof{Name: crd.Name(target.GroupResource()), UID: epoch.CRDUID,
		Generation: epoch.CRDGeneration, StorageVersion: version}
}

// Proven is what earlier runs have proven about a resource for good: every object whose resourceVersion is at most
// ResourceVersion is stored in the version of Hash (I10). The zero value says nothing.
type Proven struct {
	// Hash is the storageVersionHash, as in Epoch.
	Hash string `json:"hash"`
	// ResourceVersion is one of the collection of the resource.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Servers identifies the API servers, as Epoch.Servers does, that were running when it was last found out that etcd
	// had not been restored from a backup. API servers are restarted after that, so a run relies on a Proven only in an
	// epoch of the same processes.
	Servers []string `json:"servers"`
}

// holds reports whether a pass may rely on p in an epoch: the same processes still run. Whether p is about the version
// of the epoch, and whether the evidence is strong enough, current decides for every good range.
func (p Proven) holds(e Epoch) bool {
	return p.ResourceVersion > 0 && len(p.Servers) > 0 && slices.Equal(p.Servers, e.Servers)
}

// adopt makes what is proven a good range of the pass, in place of those within it. From then on it is kept like the others:
// as far as a witness shows that etcd was not restored. After a restore nothing is adopted again; a collection with a
// lower resourceVersion than what is proven shows one (I5).
func (s *Sweep) adopt(epoch Epoch) {
	p := s.options.Proven
	if !p.holds(epoch) || s.wire.target.Origin == Aggregated || s.options.DryRun {
		return
	}
	s.update(func() {
		if !s.state.Restored.IsZero() || s.state.Incomparable {
			return
		}
		s.state.Ranges = slices.DeleteFunc(s.state.Ranges,
			func(r goodRange) bool { return r.Hash == p.Hash && r.To <= p.ResourceVersion })
		s.state.Ranges = addRange(s.state.Ranges, goodRange{Hash: p.Hash, To: p.ResourceVersion})
		s.sawResourceVersion(p.ResourceVersion)
	})
}
