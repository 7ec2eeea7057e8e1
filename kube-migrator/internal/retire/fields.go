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
	one, err := fields(a)
	if err != nil {
		return a, err
	}
	other, err := fields(b)
	if err != nil {
		return a, err
	}
	joined, err := owning(a, one.Union(other))
	joined.FieldsType = cmp.Or(a.FieldsType, b.FieldsType)
	joined.Time = newest([]metav1.ManagedFieldsEntry{a, b})
	return joined, err
}

// fields returns what an entry owns.
func fields(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	owned := &fieldpath.Set{}
	if ownsNothing(e) {
		return owned, nil
	}
	if err := owned.FromJSON(strings.NewReader(e.FieldsV1.GetRawString())); err != nil {
		return nil, fmt.Errorf("read managedFields of %s: %w", e.Manager, err)
	}
	return owned, nil
}

// owning returns the entry with other fields.
func owning(e metav1.ManagedFieldsEntry, owned *fieldpath.Set) (metav1.ManagedFieldsEntry, error) {
	raw, err := owned.ToJSON()
	if err != nil {
		return e, fmt.Errorf("write managedFields of %s: %w", e.Manager, err)
	}
	e.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return e, nil
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

// Pointed returns ownerReferences in which each reference to the kind has the apiVersion to instead of from. Nothing else
// of a reference changes. changed is false if no reference to the kind has the apiVersion from. Pointed is pure and does
// not change references.
func Pointed(references []metav1.OwnerReference, kind, from,
	to string) (pointed []metav1.OwnerReference, changed bool) {
	pointed = slices.Clone(references)
	for i := range pointed {
		if pointed[i].APIVersion == from && pointed[i].Kind == kind {
			pointed[i].APIVersion, changed = to, true
		}
	}
	return pointed, changed
}

// Returned returns managedFields in which the managers that owned a field before a write of kube-migrator own it again,
// and kube-migrator does not. Otherwise an applier that stops to apply an ownerReference could no longer remove it, and
// one that applies it at another version would get a conflict. Fields that kube-migrator owned before the write stay its
// own. changed is false if the write has taken no field from a manager. Returned is pure.
func Returned(before, live []metav1.ManagedFieldsEntry) (entries []metav1.ManagedFieldsEntry, changed bool,
	err error) {
	had, err := union(before, ours)
	if err != nil {
		return nil, false, err
	}
	has, err := union(live, ours)
	if err != nil {
		return nil, false, err
	}
	taken, returned := has.Difference(had), &fieldpath.Set{}
	entries = slices.Clone(live)
	for _, e := range before {
		owned, err := fields(e)
		if err != nil {
			return nil, false, err
		}
		back := owned.Intersection(taken)
		if back.Empty() { // so it is for our own entry
			continue
		}
		returned = returned.Union(back)
		if entries, err = give(entries, e, back); err != nil {
			return nil, false, err
		}
	}
	if returned.Empty() {
		return live, false, nil
	}
	for i, e := range entries {
		if !ours(e) {
			continue
		}
		owned, err := fields(e)
		if err != nil {
			return nil, false, err
		}
		if entries[i], err = owning(e, owned.Difference(returned)); err != nil {
			return nil, false, err
		}
	}
	return slices.DeleteFunc(entries, ownsNothing), true, nil
}

// ours reports whether an entry is that of kube-migrator's own writes.
func ours(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == fieldManager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// give returns entries in which the manager of an entry also owns some more fields.
func give(entries []metav1.ManagedFieldsEntry, of metav1.ManagedFieldsEntry,
	more *fieldpath.Set) ([]metav1.ManagedFieldsEntry, error) {
	of, err := owning(of, more)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return sameManager(e, of) })
	if i < 0 {
		return append(entries, of), nil
	}
	entries[i], err = join(entries[i], of)
	return entries, err
}

func union(entries []metav1.ManagedFieldsEntry,
	which func(metav1.ManagedFieldsEntry) bool) (all *fieldpath.Set, err error) {
	all = &fieldpath.Set{}
	for _, e := range entries {
		if !which(e) {
			continue
		}
		owned, err := fields(e)
		if err != nil {
			return nil, err
		}
		all = all.Union(owned)
	}
	return all, nil
}
