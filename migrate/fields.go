// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// failed returns the error about the objects that could not be rewritten, or nil if there are none.
func (s *Sweep) failed() error {
	switch c := s.state.Counts; c.Failed {
	case 0:
		return nil
	case c.WouldLoseFields:
		return fmt.Errorf("%w: %d", ErrWouldLoseFields, c.Failed)
	default:
		return fmt.Errorf("%w: %d", ErrObjectsFailed, c.Failed)
	}
}

// countOf returns how a failure counts.
func countOf(f Failure) Counts {
	c := Counts{Failed: 1}
	if f.Reason == WouldLoseFields {
		c.WouldLoseFields = 1
	}
	return c
}

// isCustom reports whether a CRD says how the resource is stored. An empty Origin means Custom.
func (s *Sweep) isCustom() bool {
	return s.wire.target.Origin != BuiltIn && s.wire.target.Origin != Aggregated
}

// follow prepares a pass over a custom resource in an epoch: the schemas of the epoch's CRD decide which objects would
// lose fields (I3).
//
// A generation has one spec, so the CRD of the preflight will do. The API servers have known it for the settle time. If it
// changes, the epoch is over within lookInterval, and with it the pass; requests that are sent in between are pruned by a
// schema that this pass has not seen.
func (s *Sweep) follow(ctx context.Context, epoch Epoch) error {
	if !s.isCustom() {
		return nil
	}
	starting, release := s.untilStopped(ctx)
	defer release()
	d := s.custom
	s.custom = nil // it may be large
	if d == nil || d.UID != epoch.CRDUID || d.Generation != epoch.CRDGeneration {
		var err error
		if d, err = s.readCRD(starting, new(json.RawMessage)); err != nil {
			return err
		}
	}
	if epoch.CRDUID != "" && (d.UID != epoch.CRDUID || d.Generation != epoch.CRDGeneration) {
		return fmt.Errorf("%w: the CustomResourceDefinition was changed (generation %d, now %d)", errEpochOver,
			epoch.CRDGeneration, d.Generation)
	}
	s.patchAtStorageVersion(d)
	if err := s.served(d); err != nil {
		return err
	}
	s.provable, s.wire.pruned = proofOf(s.wire.target, epoch, d), nil
	if rule := pruning.NewRule(d, s.wire.target.Resource.Version, s.options.AcceptFieldLoss); !rule.Lossless() {
		s.wire.pruned = rule
	}
	return nil
}

// patchAtStorageVersion makes the storage version the endpoint if it is served, whatever was asked for: at another
// version, the API server would prune the objects by its schema, too.
func (s *Sweep) patchAtStorageVersion(d *pruning.CRD) {
	endpoint := d.Endpoint(s.asked)
	if endpoint == s.wire.target.Resource.Version {
		return
	}
	s.log.Info("Objects are rewritten at the storage version, where they lose nothing, and not at the one that was asked "+
		"for", "before", s.asked, "now", endpoint)
	s.wire.target.Resource.Version = endpoint
}

// readCRD reads the resource's CRD, and decodes it into d as well.
func (s *Sweep) readCRD(starting untilStop, d any) (*pruning.CRD, error) {
	name := crd.Name(s.wire.target.GroupResource())
	var raw json.RawMessage
	err := s.try(starting, func(ctx context.Context) (pace.Kind, error) {
		return pace.Other, crd.Read(ctx, s.wire.client, name, &raw)
	})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s", ErrResourceGone, name)
	}
	var schemas *pruning.CRD
	if err == nil {
		err = json.Unmarshal(raw, d)
	}
	if err == nil {
		schemas, err = pruning.Parse(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	return schemas, nil
}
