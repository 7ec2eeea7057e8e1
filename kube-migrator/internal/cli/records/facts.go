// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Known contains what was read from a cluster, and from its etcd if the user asked for that.
type Known struct {
	Inventory  *inventory.Inventory
	Migrations []v1alpha1.StorageVersionMigration
	States     map[schema.GroupResource]*v1alpha1.StorageState
	// Declared are the versions that API servers declare to decode, or nil if they were not read.
	Declared map[schema.GroupResource][]schema.GroupVersion
	// Held is what etcd contains, or nil if etcd was not read.
	Held map[schema.GroupResource][]upgrade.Held
}

// ReadStates reads the StorageStates. installed is false if the cluster does not serve them.
func (q *Client) ReadStates(ctx context.Context) (
	states map[schema.GroupResource]*v1alpha1.StorageState, installed bool, err error,
) {
	all, err := listPages(ctx, q, StatesPath, func(page []byte) ([]v1alpha1.StorageState, string, error) {
		var list v1alpha1.StorageStateList
		err := json.Unmarshal(page, &list)
		return list.Items, list.Continue, err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, false, q.Explain("list StorageStates", err)
	}
	installed = err == nil
	states = map[schema.GroupResource]*v1alpha1.StorageState{}
	for i := range all {
		r := all[i].Spec.Resource
		states[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = &all[i]
	}
	return states, installed, nil
}

// ServerDeclarationsPath is where a kube-apiserver serves the StorageVersions in which it declares what it can decode.
const ServerDeclarationsPath = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"

// declarationPaths are those of the two StorageVersion APIs: authors of aggregated API servers may choose either.
var declarationPaths = []string{"/apis/migration.k8s.io/v1alpha1/storageversions", ServerDeclarationsPath}

// ReadDeclared reads which versions API servers declare to decode. If both APIs have an object for a resource, the
// object of kube-migrator's API counts. The result contains nothing from an API that is not served, or that the user is
// forbidden to read; if needed is set, the latter is an error.
func (q *Client) ReadDeclared(ctx context.Context, needed bool) (map[schema.GroupResource][]schema.GroupVersion, error) {
	all := map[schema.GroupResource][]schema.GroupVersion{}
	for _, path := range declarationPaths {
		var raw json.RawMessage
		err := q.Send(ctx, q.REST.Get().AbsPath(path), &raw)
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) && !needed {
			continue
		}
		if err != nil {
			return nil, q.Explain("list StorageVersions", err)
		}
		declared, err := upgrade.Declared(raw)
		if err != nil {
			return nil, err
		}
		for r, versions := range declared {
			if _, known := all[r]; !known {
				all[r] = versions
			}
		}
	}
	return all, nil
}

// Choose returns the facts of all resources in scope, and what the report says about the others. It is pure.
func (k *Known) Choose(s Scope) ([]upgrade.Facts, upgrade.Scope, error) {
	if len(s.Names) > 0 {
		facts, err := k.named(s.Names)
		return facts, upgrade.Scope{Named: true}, err
	}
	about := upgrade.Scope{Named: len(s.Include) > 0}
	if _, err := k.Inventory.Select(true, s.Include, nil); err != nil { // a pattern that matches nothing is misspelt
		return nil, about, err
	}
	var facts []upgrade.Facts
	for _, r := range k.Inventory.Resources {
		f := k.Of(r)
		excluded := f.State != nil && f.State.Excluded
		switch {
		case f.NotStored && len(f.Held) == 0:
		case s.Holds(r.Names(), excluded):
			facts = append(facts, f)
		case excluded && s.Holds(r.Names(), false):
			about.Excluded = append(about.Excluded, f.Resource.String())
		}
	}
	for _, f := range k.unserved() {
		if s.Holds([]string{f.Resource.String()}, false) {
			facts = append(facts, f)
		}
	}
	for _, failure := range k.Inventory.Failures {
		if text := strings.Join(strings.Fields(failure.String()), " "); !slices.Contains(about.NotLookedAt, text) {
			about.NotLookedAt = append(about.NotLookedAt, text)
		}
	}
	return facts, about, nil
}

// named returns the facts of resources by the names that users type, which includes the names of their
// StorageVersionMigrations.
func (k *Known) named(words []string) (facts []upgrade.Facts, err error) {
	add := func(f upgrade.Facts) {
		if !slices.ContainsFunc(facts, func(other upgrade.Facts) bool { return other.Resource == f.Resource }) {
			facts = append(facts, f)
		}
	}
	for _, word := range words {
		r, err := k.Inventory.Find(word)
		if err == nil {
			add(k.Of(r))
			continue
		}
		found := false
		for _, f := range slices.Concat(k.served(), k.unserved()) {
			if f.Resource.String() == word || slices.ContainsFunc(f.Migrations, func(m v1alpha1.StorageVersionMigration) bool {
				return m.Name == word || ResourceOf(&m).String() == word
			}) {
				found = true
				add(f)
			}
		}
		if !found {
			return nil, err
		}
	}
	return facts, nil
}

func (k *Known) served() (all []upgrade.Facts) {
	for _, r := range k.Inventory.Resources {
		all = append(all, k.Of(r))
	}
	return all
}

// Of returns the facts about one resource, under any of its names.
func (k *Known) Of(r inventory.Resource) upgrade.Facts {
	f := upgrade.Facts{
		Resource: r.GroupResource, Kind: r.Kind, Aggregated: r.Origin == migrate.Aggregated,
		Current: r.StorageVersion, CurrentHash: r.StorageVersionHash, Migrations: Matches(k.Migrations, IsAbout(r)),
	}
	if r.Problem != nil {
		f.Unfit, f.NotStored = r.Problem.Message, r.Problem.Reason == inventory.NotPersisted
	}
	if r.CRD != nil {
		f.CRD = &upgrade.CRD{
			Group: r.Group, Kind: r.Kind, UID: string(r.CRD.UID), Generation: r.CRD.Generation,
			ResourceVersion: k.CRDVersion(r.CRD.ResourceVersion),
			ClaimedBy:       r.CRD.ClaimedBy,
			Versions:        r.CRD.Versions, StorageVersion: r.CRD.StorageVersion, StoredVersions: r.CRD.StoredVersions,
		}
	}
	for _, name := range NamesOf(r) {
		if state := k.States[name]; state != nil && f.State == nil {
			k.Record(&f, state)
			// otherwise there may be servers that declare nothing
			if f.Aggregated && state.Status.Evidence == migrate.Declared.String() {
				f.Decodable = k.Declared[name]
			}
		}
		f.Held = append(f.Held, k.Held[name]...)
	}
	return f
}

// Record adds the StorageState to the facts.
func (k *Known) Record(f *upgrade.Facts, state *v1alpha1.StorageState) {
	f.State = &state.Status
	f.StateVersion = k.ordered(v1alpha1.SchemeGroupVersion.Group, "storagestates", state.ResourceVersion)
}

// CRDVersion returns the resourceVersion of a CRD as upgrade.CRD has it.
func (k *Known) CRDVersion(resourceVersion string) string {
	return k.ordered("apiextensions.k8s.io", "customresourcedefinitions", resourceVersion)
}

// ordered returns the resourceVersion of a record, or "" if etcd was read and holds no record of that kind: it is the
// etcd of another API server, whose revisions say nothing about the record, or older than every record.
func (k *Known) ordered(group, resource, resourceVersion string) string {
	if k.Held != nil && len(k.Held[schema.GroupResource{Group: group, Resource: resource}]) == 0 {
		return ""
	}
	return resourceVersion
}

// NamesOf returns the names of a resource, in every group that serves it.
func NamesOf(r inventory.Resource) (names []schema.GroupResource) {
	for _, name := range r.Names() {
		names = append(names, schema.ParseGroupResource(name))
	}
	return names
}

// unserved returns the facts about resources that the API server does not serve, and that are in StorageStates,
// StorageVersionMigrations or etcd.
func (k *Known) unserved() (all []upgrade.Facts) {
	served := map[schema.GroupResource]bool{}
	for _, r := range k.Inventory.Resources {
		for _, name := range NamesOf(r) {
			served[name] = true
		}
	}
	gone := map[schema.GroupResource]*upgrade.Facts{}
	at := func(r schema.GroupResource) *upgrade.Facts {
		if gone[r] == nil {
			gone[r] = &upgrade.Facts{Resource: r, Gone: true}
		}
		return gone[r]
	}
	for r, state := range k.States {
		if !served[r] {
			k.Record(at(r), state)
		}
	}
	for _, m := range k.Migrations {
		if r := ResourceOf(&m); !served[r] {
			at(r).Migrations = append(at(r).Migrations, m)
		}
	}
	for r, held := range k.Held {
		if !served[r] {
			at(r).Held = held
		}
	}
	for _, f := range gone {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b upgrade.Facts) int {
		return strings.Compare(a.Resource.String(),
			b.Resource.String())
	})
	return all
}

// HeldOf groups the contents of etcd by resource.
func HeldOf(report *etcdaudit.Report) map[schema.GroupResource][]upgrade.Held {
	held := map[schema.GroupResource][]upgrade.Held{}
	for _, row := range report.Rows {
		if row.Comparison == etcdaudit.NoObject {
			continue
		}
		gv, _ := schema.ParseGroupVersion(row.APIVersion) // the audit has parsed it
		resource := schema.ParseGroupResource(row.Resource)
		held[resource] = append(held[resource], upgrade.Held{Version: gv, Kind: row.Kind, Objects: row.Objects,
			Opaque: row.APIVersion == ""})
	}
	return held
}
