// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fieldManager is the field manager of kube-migrator's writes. A write that changes only managedFields owns no field.
const fieldManager = "kube-migrator"

// seeded is what the entry of an object owns that would otherwise have no entry: an annotation that the object does not
// have. The API server drops an entry that owns nothing.
const seeded = `{"f:metadata":{"f:annotations":{"f:migration.k8s.io/retired":{}}}}`

// Moved returns managedFields in which each entry of the apiVersion from has the apiVersion to. If the manager has an
// entry of that apiVersion already, the two are joined, because the API server takes them for one. Entries that own
// nothing are removed. If no entry would be left, there is a new one for an annotation that the object does not have:
// without any entry, the API server would take the object for one that was never tracked, and give all its fields to
// the manager "before-first-apply". changed is false if no entry has the apiVersion from. Moved is pure and does not
// change entries.
func Moved(entries []metav1.ManagedFieldsEntry, from,
	to string) (moved []metav1.ManagedFieldsEntry, changed bool, err error) {
	if !slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return e.APIVersion == from }) {
		return entries, false, nil
	}
	for _, e := range entries {
		if e.APIVersion == from {
			e.APIVersion = to
		}
		i := slices.IndexFunc(moved, func(other metav1.ManagedFieldsEntry) bool { return sameManager(e, other) })
		if i < 0 {
			moved = append(moved, e)
			continue
		}
		if moved[i], err = join(moved[i], e); err != nil {
			return nil, false, err
		}
	}
	moved = slices.DeleteFunc(moved, ownsNothing)
	if len(moved) == 0 {
		moved = []metav1.ManagedFieldsEntry{{
			Manager: fieldManager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: to,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(seeded), Time: newest(entries),
		}}
	}
	return moved, true, nil
}

func ownsNothing(e metav1.ManagedFieldsEntry) bool {
	return e.FieldsV1 == nil || slices.Contains([]string{"", "{}", "null"},
		strings.TrimSpace(e.FieldsV1.GetRawString()))
}

// sameManager reports whether the API server takes two entries for one.
func sameManager(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource &&
		a.APIVersion == b.APIVersion
}

// join returns an entry that owns the fields of both, with the later time.
func join(a, b metav1.ManagedFieldsEntry) (metav1.ManagedFieldsEntry, error) {
	var all fieldpath.Set
	for _, e := range []metav1.ManagedFieldsEntry{a, b} {
		if ownsNothing(e) {
			continue
		}
		var owned fieldpath.Set
		if err := owned.FromJSON(strings.NewReader(e.FieldsV1.GetRawString())); err != nil {
			return a, fmt.Errorf("read managedFields of %s: %w", e.Manager, err)
		}
		all = *all.Union(&owned)
	}
	raw, err := all.ToJSON()
	if err != nil {
		return a, fmt.Errorf("write managedFields of %s: %w", a.Manager, err)
	}
	a.FieldsType, a.FieldsV1 = cmp.Or(a.FieldsType, b.FieldsType), metav1.NewFieldsV1(string(raw))
	a.Time = newest([]metav1.ManagedFieldsEntry{a, b})
	return a, nil
}

// newest returns the latest time of the entries, or nil if none has a time.
func newest(entries []metav1.ManagedFieldsEntry) (latest *metav1.Time) {
	for _, e := range entries {
		if e.Time != nil && (latest == nil || latest.Before(e.Time)) {
			latest = e.Time
		}
	}
	return latest
}
