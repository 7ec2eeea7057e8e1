// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// candidates returns the versions that a hash of the target may stand for: those of its CRD, or the usual names of
// versions in its group and in the core group, in which, for example, events of events.k8s.io are stored.
func candidates(target migrate.Target, d *crd.CRD) []schema.GroupVersionKind {
	gvk := target.Resource.GroupVersion().WithKind(target.Kind)
	list := []schema.GroupVersionKind{gvk}
	if d != nil {
		for _, v := range d.Spec.Versions {
			list = append(list, schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind})
		}
		return list
	}
	for _, group := range []string{gvk.Group, ""} {
		for major := 1; major <= 2; major++ {
			v := fmt.Sprintf("v%d", major)
			list = append(list, schema.GroupVersionKind{Group: group, Version: v, Kind: gvk.Kind})
			for minor := 1; minor <= 3; minor++ {
				for _, stage := range []string{"beta", "alpha"} {
					list = append(list, schema.GroupVersionKind{Group: group,
						Version: fmt.Sprintf("%s%s%d", v, stage, minor), Kind: gvk.Kind})
				}
			}
		}
	}
	return list
}

// readable returns the group/version among the candidates that has this hash, "" if none has.
func readable(hash string, candidates []schema.GroupVersionKind) string {
	for _, c := range candidates {
		if storageversion.Hash(c) == hash {
			return c.GroupVersion().String()
		}
	}
	return ""
}

// describe returns the version that a hash stands for, or text with the hash.
func describe(hash string, candidates []schema.GroupVersionKind) string {
	if hash == "" {
		return "a version that it does not show"
	}
	if v := readable(hash, candidates); v != "" {
		return v
	}
	return "a version with the hash " + hash
}
