// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const notServed = "apiextensions.k8s.io/v1beta1 is not served since Kubernetes 1.22: `api-migrator crd upgrade` " +
	"writes v1"

// CreateProblems says why an API server would not take it as a new object; none where it would.
func (d *CRD) CreateProblems(ctx context.Context) []string {
	created := d.internal.DeepCopy()
	// The API server overwrites the status of what is created.
	created.Status = apiextensions.CustomResourceDefinitionStatus{StoredVersions: storageVersions(created)}
	created.Generation = 1
	return d.problems(validation.ValidateCustomResourceDefinition(ctx, created))
}

// UpdateProblems says why an API server that holds old would not take d in its place; none where it would.
func (d *CRD) UpdateProblems(ctx context.Context, old *CRD) []string {
	held := old.held()
	next := d.internal.DeepCopy()
	next.ObjectMeta = *held.ObjectMeta.DeepCopy()
	next.Name, next.Labels, next.Annotations = d.internal.Name, d.internal.Labels, d.internal.Annotations
	next.Status = *held.Status.DeepCopy()
	for _, version := range storageVersions(next) {
		if !slices.Contains(next.Status.StoredVersions, version) {
			next.Status.StoredVersions = append(next.Status.StoredVersions, version)
		}
	}
	return d.problems(validation.ValidateCustomResourceDefinitionUpdate(ctx, next, held))
}

// held is the object as a cluster that has served it for a while would hold it: established, and where nothing is known
// of what is stored, anything may be.
func (d *CRD) held() *apiextensions.CustomResourceDefinition {
	held := d.internal.DeepCopy()
	held.ResourceVersion = "1"
	held.Status.StoredVersions = d.storedVersions()
	apiextensions.SetCRDCondition(held, apiextensions.CustomResourceDefinitionCondition{Type: apiextensions.Established,
		Status: apiextensions.ConditionTrue})
	return held
}

// storedVersions are those in which objects may be stored: what status says, or without one every version.
func (d *CRD) storedVersions() []string {
	if d.saysStored {
		return slices.Clone(d.internal.Status.StoredVersions)
	}
	var all []string
	for _, version := range d.internal.Spec.Versions {
		if !slices.Contains(all, version.Name) {
			all = append(all, version.Name)
		}
	}
	return all
}

// storageVersions is the version that new objects are stored in; as the API server does, the first that claims it.
func storageVersions(crd *apiextensions.CustomResourceDefinition) []string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return []string{version.Name}
		}
	}
	return nil
}

func (d *CRD) problems(found field.ErrorList) []string {
	var problems []string
	if !d.isV1() {
		problems = append(problems, notServed)
	}
	for _, problem := range found {
		text := problem.Error()
		if isLarge(problem.BadValue) {
			text = problem.Field + ": " + problem.Detail
		}
		problems = append(problems, strings.Join(strings.Fields(text), " "))
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// isLarge reports whether the validation's bad value is a schema, a rule or a list of versions: the message says enough
// without.
func isLarge(value any) bool {
	v := reflect.Indirect(reflect.ValueOf(value))
	return v.Kind() == reflect.Struct || v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct
}
