// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// choose finds the resource to migrate. The error is a *problem if the resource cannot be migrated, and another error
// if a later look may find otherwise. It is pure.
func choose(all *inventory.Inventory, asked v1alpha1.GroupVersionResource) (inventory.Resource, error) {
	name := schema.GroupResource{Group: asked.Group, Resource: asked.Resource}
	i := slices.IndexFunc(all.Resources, func(r inventory.Resource) bool {
		return slices.Contains(r.Names(),
			name.String())
	})
	unread := unreadOf(all, asked.Group)
	switch {
	case i < 0 && unread != "":
		return inventory.Resource{}, fmt.Errorf("look for %s: %s", name, unread)
	case i < 0:
		return inventory.Resource{}, &problem{ResultResourceGone,
			fmt.Sprintf("the API server serves no resource %s", name)}
	}
	r := all.Resources[i]
	if r.Problem != nil {
		text := fmt.Sprintf("%s cannot be migrated: %s", name, r.Problem.Message)
		if unread != "" || r.Problem.Reason == inventory.NotDiscovered { // an API server may have just started
			return inventory.Resource{}, fmt.Errorf("look for %s: %s", name, text)
		}
		return inventory.Resource{}, &problem{ResultNotReady, text}
	}
	if asked.Version == "" {
		return r, nil
	}
	at, err := all.Find(asked.Resource + "." + asked.Version + "." + asked.Group)
	if err == nil && at.GroupResource == r.GroupResource {
		return at, nil
	}
	if unread != "" {
		return inventory.Resource{}, fmt.Errorf("look for version %s of %s: %s", asked.Version, name, unread)
	}
	return inventory.Resource{}, &problem{ResultNotReady,
		fmt.Sprintf("%s is not served at version %s, only at %s; leave the version empty to have one chosen",
			name, asked.Version, strings.Join(served(r), ", "))}
}

func served(r inventory.Resource) []string {
	var versions []string
	for _, v := range r.Versions {
		versions = append(versions, v.Name)
	}
	return versions
}

// unreadOf names the parts of the inventory that may contain resources of the group and could not be read, or returns
// "".
func unreadOf(all *inventory.Inventory, group string) string {
	var parts []string
	for _, f := range all.Failures {
		gv, err := schema.ParseGroupVersion(f.What)
		if f.Group == group && err == nil && gv.Group == group && (group != "" || strings.HasPrefix(gv.Version, "v")) {
			parts = append(parts, f.String())
		}
	}
	return strings.Join(parts, "; ")
}
