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
	*pruning.Rule
}

// judgeOf returns the judge of an upgrade.
func judgeOf(next *CRD, f Facts) *judge {
	return &judge{next.Spec.Group, ruleOf(next, f.Live, conversionOf(next, f.Live).Webhook(), rewrites(next, f))}
}

// ruleOf returns the rule for objects of the cluster's CRD that are written under the CRD in the file, or under the
// intermediate one, where a webhook converts them or not.
func ruleOf(next, live *CRD, webhook, rewritten bool) *pruning.Rule {
	is := *next.schemas
	is.Webhook, is.Versions = webhook, slices.Clone(is.Versions)
	for _, v := range live.schemas.Versions {
		if is.Version(v.Name) == nil { // as in the intermediate CRD
			v.Storage = false
			is.Versions = append(is.Versions, v)
		}
	}
	return pruning.NewUpgradeRule(live.schemas, &is, is.Endpoint(next.Endpoint()), nil, rewritten)
}

// rewrites reports whether the objects are rewritten, by the upgrade or, as the storage version moves, after it.
func rewrites(next *CRD, f Facts) bool {
	return len(Removed(next, f.Live)) > 0 || f.Live.StorageVersion() != next.StorageVersion() || losesWebhook(next, f)
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
	f.Losses.Add(object, j.Lost(object.ManagedFields))
}
