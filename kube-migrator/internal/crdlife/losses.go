// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdlife

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// Found is what the metadata of all objects shows.
type Found struct {
	Objects int64
	// Naming counts, for each version, the objects whose managedFields name it.
	Naming map[string]int64
	// Losses are the objects that would lose fields.
	Losses pruning.Losses
}

// judge knows which fields an object loses once a CRD takes the place of the one in the cluster: when kube-migrator
// rewrites it, or when anyone writes it next (I3). It is the rule of every sweep, asked before.
type judge struct {
	group string
	rule  *pruning.Rule
	// already is the rule of the CRD in the cluster. What objects lose by that, they do not lose by the upgrade. It is nil
	// if the upgrade rewrites the objects, and so makes every loss final.
	already *pruning.Rule
}

// judgeOf returns the judge of an upgrade.
func judgeOf(next *CRD, f Facts) *judge {
	live := f.Live
	j := &judge{group: next.Spec.Group, rule: ruleOf(next, live, conversionOf(next, live).Webhook())}
	if !rewrites(next, f) {
		j.already = pruning.NewRule(live.schemas, live.schemas.Endpoint(live.Endpoint()), nil)
	}
	return j
}

// ruleOf returns the rule for objects of the cluster's CRD that are written under the CRD in the file, or under the
// intermediate one, where a webhook converts them or not.
func ruleOf(next, live *CRD, webhook bool) *pruning.Rule {
	is := *next.schemas
	is.Webhook, is.Versions = webhook, slices.Clone(is.Versions)
	for _, v := range live.schemas.Versions {
		if is.Version(v.Name) == nil { // as in the intermediate CRD
			v.Storage = false
			is.Versions = append(is.Versions, v)
		}
	}
	return pruning.NewUpgradeRule(live.schemas, &is, is.Endpoint(next.Endpoint()), nil)
}

// rewrites reports whether the objects are rewritten, by the upgrade or, as the storage version moves, after it.
func rewrites(next *CRD, f Facts) bool {
	return len(Removed(next, f.Live)) > 0 || f.Live.StorageVersion() != next.StorageVersion() || losesWebhook(next, f)
}

// possible returns the fields that objects may have and that they would lose, as the schemas show.
func (j *judge) possible() []string {
	if j.already == nil {
		return j.rule.Possible()
	}
	return without(j.rule.Possible(), j.already.Possible())
}

func without(fields, known []string) []string {
	return slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return slices.Contains(known, f) })
}

// lost returns the fields that an object would lose.
func (j *judge) lost(entries []metav1.ManagedFieldsEntry) []string {
	fields := j.rule.Lost(entries)
	if len(fields) > 0 && j.already != nil {
		return without(fields, j.already.Lost(entries))
	}
	return fields
}

// add counts an object.
func (f *Found) add(j *judge, object *metav1.ObjectMeta) {
	f.Objects++
	versions := map[string]bool{}
	for _, e := range object.ManagedFields {
		if version, ok := strings.CutPrefix(e.APIVersion, j.group+"/"); ok && !versions[version] {
			versions[version] = true
			f.Naming[version]++
		}
	}
	f.Losses.Add(object, j.lost(object.ManagedFields))
}
