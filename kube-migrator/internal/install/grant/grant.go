// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package grant decides at which versions the worker may rewrite each resource, and says so in rules of RBAC, which the
// guard asks the authorizer about. install and the controller write these rules. It is pure.
//
// Invariant: of a custom resource the worker may rewrite one version, the storage version if it is served. At another
// one, the API server drops what that version's schema lacks when it reads the object, so that even an update that
// changes nothing loses it (I3).
package grant

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Verb is the verb on a resource that allows rewriting it at the version that is the name of the object. It is not a
// verb of Kubernetes, and grants nothing without the verb patch.
const Verb = "rewrite"

// Versions are the versions at which the worker may rewrite resources, sorted.
type Versions map[schema.GroupResource][]string

// Of returns the versions of resources. One that cannot be migrated, or that admission policies do not guard, has none.
func Of(resources []inventory.Resource) Versions {
	all := Versions{}
	for _, r := range resources {
		if r.Problem == nil && !inventory.ExemptFromPolicies(r.GroupResource) {
			all[r.GroupResource] = versionsOf(r)
		}
	}
	return all
}

func versionsOf(r inventory.Resource) []string {
	var served []string
	for _, v := range r.Versions {
		served = append(served, v.Name)
	}
	slices.Sort(served)
	switch {
	case r.Origin == migrate.BuiltIn || r.Origin == migrate.Aggregated:
		// Their versions are types of Go, between which nothing is lost.
		return served
	case r.CRD != nil && slices.Contains(served, r.CRD.StorageVersion):
		// The CRD decides: discovery may show for a moment what it said before.
		return []string{r.CRD.StorageVersion}
	}
	return []string{r.Endpoint}
}

// Rules returns the rules that grant the versions: one for all resources of a group that have the same versions, in
// alphabetical order.
func (v Versions) Rules() []rbacv1.PolicyRule {
	type key struct{ group, versions string }
	resources := map[key][]string{}
	for r, versions := range v {
		k := key{r.Group, strings.Join(versions, " ")}
		resources[k] = append(resources[k], r.Resource)
	}
	var rules []rbacv1.PolicyRule
	for k, names := range resources {
		slices.Sort(names)
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{k.group}, Resources: names,
			ResourceNames: strings.Fields(k.versions), Verbs: []string{Verb}})
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int {
		return slices.Compare([]string{a.APIGroups[0], a.Resources[0]}, []string{b.APIGroups[0], b.Resources[0]})
	})
	return rules
}

// Read returns what rules of this form grant.
func Read(rules []rbacv1.PolicyRule) Versions {
	all := Versions{}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				all[schema.GroupResource{Group: group, Resource: name}] = slices.Clone(r.ResourceNames)
			}
		}
	}
	return all
}

// Next returns the rules that follow what is known now. Of a resource that discovery may only fail to show, the former
// grant remains.
func Next(former []rbacv1.PolicyRule, known *inventory.Inventory,
	excludes func(names []string) bool) []rbacv1.PolicyRule {
	included := slices.DeleteFunc(slices.Clone(known.Resources),
		func(r inventory.Resource) bool { return excludes(r.Names()) })
	next := Of(included)
	if len(known.Failures) > 0 {
		kept := Read(former)
		for _, r := range known.Resources {
			delete(kept, r.GroupResource)
		}
		maps.Copy(next, kept)
	}
	return next.Rules()
}
