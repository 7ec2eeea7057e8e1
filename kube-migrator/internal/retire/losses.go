// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// Losses are the objects that would lose fields by a rewrite, or by another write of kube-migrator (I3).
type Losses struct {
	// Refused would lose a field that may not be lost, so they would be left alone. Accepted would lose only fields that
	// the user accepts.
	Refused, Accepted pruning.Losses
}

// add counts an object that would lose fields, if there are any.
func (l *Losses) add(object *metav1.ObjectMeta, fields, accepted []string) {
	refused := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return pruning.Accepts(accepted, f) })
	if len(refused) > 0 {
		l.Refused.Add(object, refused)
		return
	}
	l.Accepted.Add(object, fields)
}

// lossless refuses to rewrite objects that would lose fields: the sweep would leave them alone, and the version could not
// be retired.
func (want Intent) lossless(f Facts) *refusal.Error {
	refused := f.Losses.Refused
	if refused.Objects == 0 || want.isRetired(f) {
		return nil
	}
	return want.fieldLoss(refused, schema.GroupResource{Group: f.CRD.Spec.Group, Resource: f.CRD.Spec.Names.Plural},
		"rewritten as "+f.CRD.StorageVersion())
}

// losslessDependents refuses to move ownerReferences of objects that would lose fields by the write.
func (want Intent) losslessDependents(f Facts) *refusal.Error {
	if !want.FixOwners {
		return nil
	}
	for _, in := range f.Dependents.Resources {
		if in.Losses.Objects > 0 {
			return want.fieldLoss(in.Losses, in.At.GroupResource(), "written to move their ownerReferences")
		}
	}
	return nil
}

// fieldLoss names the objects, and the flag that accepts what they would lose. The command shows the first one.
func (want Intent) fieldLoss(refused pruning.Losses, in schema.GroupResource, how string) *refusal.Error {
	first := refused.Named[0]
	try := []string{"kubectl", "get", in.String(), shell.Quote(first.Name), "-o", "yaml", "--show-managed-fields"}
	if first.Namespace != "" {
		try = append(try, "-n", shell.Quote(first.Namespace))
	}
	return refusal.New(FieldLoss, strings.Join(try, " "), "%s of %s would lose fields if they were %s, because the "+
		"schema under which they would be stored does not have them: %s; %s accepts that", phrase.Objects(refused.Objects), in, how, refused,
		shell.Quote("--accept-field-loss="+strings.Join(refused.Fields, ",")))
}

// keeper knows which fields a write to an object of a resource would drop: the writes go through the schemas of its CRD.
type keeper struct {
	client   rest.Interface
	resource schema.GroupVersionResource
	accepted []string

	schemas *pruning.CRD // nil for a resource that is not a custom one
	at      string       // the version at which the objects have to be written
	rule    *pruning.Rule
}

// isCustom reports whether a resource may be a custom one: the group of a CRD has a dot.
func isCustom(r schema.GroupResource) bool { return strings.Contains(r.Group, ".") }

// look reads the CRD again, and returns the version at which the objects have to be written: the storage version if it is
// served.
func (k *keeper) look(ctx context.Context) (schema.GroupVersionResource, error) {
	at := k.resource
	if !isCustom(at.GroupResource()) {
		return at, nil
	}
	var schemas *pruning.CRD
	err := patiently(ctx, func() (err error) {
		_, schemas, err = crd.GetWithSchemas(ctx, k.client, crd.Name(at.GroupResource()))
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		k.schemas, k.rule = nil, nil
		return at, nil
	case err != nil:
		return at, fmt.Errorf("read CustomResourceDefinition %s: %w", crd.Name(at.GroupResource()), err)
	}
	at.Version = schemas.Endpoint(at.Version)
	k.at = at.Version
	if k.schemas == nil || k.schemas.UID != schemas.UID || k.schemas.Generation != schemas.Generation {
		k.schemas, k.rule = schemas, pruning.NewRule(schemas, at.Version, k.accepted)
	}
	return at, nil
}

// lost returns the fields that a write to an object would drop, and that may not be lost.
func (k *keeper) lost(object *metav1.ObjectMeta) []string {
	if k == nil || k.rule == nil {
		return nil
	}
	return k.rule.Lost(object.ManagedFields)
}

// owned returns managedFields in which the entries of an apiVersion name only fields that the objects can still have. Every
// object was rewritten before its entries are moved.
func (k *keeper) owned(entries []metav1.ManagedFieldsEntry, apiVersion string) []metav1.ManagedFieldsEntry {
	if k.schemas == nil || k.schemas.Version(k.at) == nil {
		return entries
	}
	entries = slices.Clone(entries)
	for i, e := range entries {
		if e.APIVersion == apiVersion && e.FieldsV1 != nil {
			entries[i].FieldsV1 = metav1.NewFieldsV1(k.schemas.Version(k.at).Schema.Kept(e.FieldsV1.GetRawString()))
		}
	}
	return entries
}
