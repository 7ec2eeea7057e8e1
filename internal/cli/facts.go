// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const statesPath = "/apis/migration.k8s.io/v1alpha1/storagestates"

// scope is which resources a report is about: those of names, else all but those that patterns, or the installation,
// leave out.
type scope struct {
	names            []string
	include, exclude []string
}

func (s *scope) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.include, "include", nil,
		"Only resources by a pattern of full names, such as '*.demo.example.com', also where the installation "+
			"excludes them")
	flags.StringSliceVar(&s.exclude, "exclude", nil, "Leave out resources by a pattern of full names")
}

// check refuses what cannot be meant before anything is sent.
func (s *scope) check(command *cobra.Command) error {
	for _, flag := range []string{"include", "exclude"} {
		if err := exclusive(command, resource, flag); err != nil {
			return err
		}
	}
	if err := badPattern(slices.Concat(s.include, s.exclude)); err != nil {
		return usageError(command, err)
	}
	return nil
}

// holds reports whether a resource of these names is in scope. An installation's exclusion gives way to --include.
func (s *scope) holds(names []string, excluded bool) bool {
	included := inventory.Matches(s.include, names...)
	return (included || len(s.include) == 0 && !excluded) && !inventory.Matches(s.exclude, names...)
}

// known is what facts are made from: one look at a cluster, and at its etcd where that was asked for.
type known struct {
	inv        *inventory.Inventory
	migrations []v1alpha1.StorageVersionMigration
	states     map[schema.GroupResource]*v1alpha1.StorageStateStatus
	held       map[schema.GroupResource][]upgrade.Held
}

// readStates reads the StorageStates. installed is false where the cluster does not know them.
func (q *requests) readStates(ctx context.Context) (
	states map[schema.GroupResource]*v1alpha1.StorageStateStatus, installed bool, err error,
) {
	var list v1alpha1.StorageStateList
	err = q.send(ctx, q.client.Get().AbsPath(statesPath), &list)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, false, q.explain("list StorageStates", err)
	}
	installed = err == nil
	states = map[schema.GroupResource]*v1alpha1.StorageStateStatus{}
	for i := range list.Items {
		r := list.Items[i].Spec.Resource
		states[schema.GroupResource{Group: r.Group, Resource: r.Resource}] = &list.Items[i].Status
	}
	return states, installed, nil
}

// choose returns the facts of all resources in scope, and what the report is to say about the others. It is pure.
func (k *known) choose(s scope) ([]upgrade.Facts, upgrade.Scope, error) {
	if len(s.names) > 0 {
		facts, err := k.named(s.names)
		return facts, upgrade.Scope{Named: true}, err
	}
	about := upgrade.Scope{Named: len(s.include) > 0}
	if _, err := k.inv.Select(true, s.include, nil); err != nil { // a pattern that matches nothing is misspelt
		return nil, about, err
	}
	var facts []upgrade.Facts
	for _, r := range k.inv.Resources {
		f := k.of(r)
		excluded := f.State != nil && f.State.Excluded
		switch {
		case f.NotStored && len(f.Held) == 0:
		case s.holds(r.Names(), excluded):
			facts = append(facts, f)
		case excluded && s.holds(r.Names(), false):
			about.Excluded = append(about.Excluded, f.Resource.String())
		}
	}
	for _, f := range k.unserved() {
		if s.holds([]string{f.Resource.String()}, false) {
			facts = append(facts, f)
		}
	}
	for _, failure := range k.inv.Failures {
		if text := strings.Join(strings.Fields(failure.String()), " "); !slices.Contains(about.NotLookedAt, text) {
			about.NotLookedAt = append(about.NotLookedAt, text)
		}
	}
	return facts, about, nil
}

// named returns the facts of resources by what a user may call them, which includes the names of their
// StorageVersionMigrations.
func (k *known) named(words []string) (facts []upgrade.Facts, err error) {
	add := func(f upgrade.Facts) {
		if !slices.ContainsFunc(facts, func(other upgrade.Facts) bool { return other.Resource == f.Resource }) {
			facts = append(facts, f)
		}
	}
	for _, word := range words {
		r, err := k.inv.Find(word)
		if err == nil {
			add(k.of(r))
			continue
		}
		found := false
		for _, f := range slices.Concat(k.served(), k.unserved()) {
			if f.Resource.String() == word || slices.ContainsFunc(f.Migrations, func(m v1alpha1.StorageVersionMigration) bool {
				return m.Name == word || resourceOf(&m).String() == word
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

func (k *known) served() (all []upgrade.Facts) {
	for _, r := range k.inv.Resources {
		all = append(all, k.of(r))
	}
	return all
}

// of puts together what is known of one resource, under any of its names.
func (k *known) of(r inventory.Resource) upgrade.Facts {
	f := upgrade.Facts{
		Resource: r.GroupResource, Kind: r.Kind, Aggregated: r.Origin == migrate.Aggregated,
		Current: r.StorageVersion, CurrentHash: r.StorageVersionHash, Migrations: matches(k.migrations, isAbout(r)),
	}
	if r.Problem != nil {
		f.Unfit, f.NotStored = r.Problem.Message, r.Problem.Reason == inventory.NotPersisted
	}
	if r.CRD != nil {
		f.Definition = &upgrade.Definition{
			Group: r.Group, Kind: r.Kind, UID: string(r.CRD.UID), Generation: r.CRD.Generation,
			Versions: r.CRD.Versions, StorageVersion: r.CRD.StorageVersion, StoredVersions: r.CRD.StoredVersions,
		}
	}
	for _, name := range namesOf(r) {
		if state := k.states[name]; state != nil && f.State == nil {
			f.State = state
		}
		f.Held = append(f.Held, k.held[name]...)
	}
	return f
}

func namesOf(r inventory.Resource) (names []schema.GroupResource) {
	for _, name := range r.Names() {
		names = append(names, schema.ParseGroupResource(name))
	}
	return names
}

// unserved are resources that StorageStates, StorageVersionMigrations or etcd know, and that the API server does not
// have.
func (k *known) unserved() (all []upgrade.Facts) {
	served := map[schema.GroupResource]bool{}
	for _, r := range k.inv.Resources {
		for _, name := range namesOf(r) {
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
	for r, state := range k.states {
		if !served[r] {
			at(r).State = state
		}
	}
	for _, m := range k.migrations {
		if r := resourceOf(&m); !served[r] {
			at(r).Migrations = append(at(r).Migrations, m)
		}
	}
	for r, held := range k.held {
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

// heldOf sorts what etcd holds by resource.
func heldOf(report *etcdaudit.Report) map[schema.GroupResource][]upgrade.Held {
	held := map[schema.GroupResource][]upgrade.Held{}
	for _, row := range report.Rows {
		if row.Comparison == etcdaudit.NoObject {
			continue
		}
		gv, _ := schema.ParseGroupVersion(row.APIVersion) // the audit has seen that it parses
		resource := schema.ParseGroupResource(row.Resource)
		held[resource] = append(held[resource], upgrade.Held{Version: gv, Kind: row.Kind, Objects: row.Objects,
			Opaque: row.APIVersion == ""})
	}
	return held
}
