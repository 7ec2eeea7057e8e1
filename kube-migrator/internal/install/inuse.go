// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// findNamespaces finds the namespaces of the installation, even if a part of it was removed by hand.
func (r *Removal) findNamespaces(ctx context.Context) error {
	names := map[string]bool{}
	for _, name := range []string{"Namespace", "Deployment", "ServiceAccount"} {
		k := kindNamed(name)
		all, err := found(ctx, r.Client, k, "", ours)
		if err != nil {
			return err
		}
		for _, o := range all {
			if k.namespaced {
				names[o.Namespace] = true
				continue
			}
			names[o.Name] = true
			if !r.Purge {
				continue
			}
			if err := r.unused(ctx, o.Name); err != nil {
				return err
			}
		}
	}
	r.namespaces = slices.Sorted(maps.Keys(names))
	return nil
}

// unused returns ErrInUse if a namespace contains an object of someone else.
func (r *Removal) unused(ctx context.Context, namespace string) error {
	var all corev1.PodList
	if err := list(ctx, r.Client, pods, namespace, "", "", &all); err != nil {
		return err
	}
	for _, p := range all.Items {
		if !isOurs(p) {
			return fmt.Errorf("%w: %s holds the pod %s, which is not of kube-migrator", ErrInUse, namespace, p.Name)
		}
	}
	for _, k := range used {
		others, err := found(ctx, r.Client, k, namespace, managedByLabel+"!="+Name)
		if err != nil {
			return err
		}
		if len(others) > 0 {
			return fmt.Errorf("%w: %s holds the %s %s, which is not of kube-migrator", ErrInUse, namespace,
				k.Kind, others[0].Name)
		}
	}
	return nil
}
