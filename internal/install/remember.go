// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// Kept returns resources of some groups that workers may migrate already, and that the patterns still include. An installation
// that cannot see a group now must not take away what was granted of it: nobody asked for that.
func Kept(ctx context.Context, client rest.Interface, groups, include, exclude []string) ([]schema.GroupResource, error) {
	o, err := read(ctx, client, kindNamed("ClusterRole"), "", WorkerAccount)
	if err != nil || o == nil {
		return nil, err
	}
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		return nil, fmt.Errorf("read ClusterRole %s: %w", WorkerAccount, err)
	}
	var kept []schema.GroupResource
	for _, r := range role.Rules {
		if len(r.APIGroups) != 1 || !slices.Contains(groups, r.APIGroups[0]) || !slices.Contains(r.Verbs, "patch") {
			continue
		}
		for _, name := range r.Resources {
			resource := schema.GroupResource{Group: r.APIGroups[0], Resource: name}
			if (len(include) == 0 || inventory.Matches(include, resource.String())) && !inventory.Matches(exclude, resource.String()) {
				kept = append(kept, resource)
			}
		}
	}
	return kept, nil
}

// tellChanges warns of arguments of a controller that is there and that the planned one does not have. Options are not remembered:
// who repeats an installation with a flag less changes what may be migrated.
func (i *Installation) tellChanges(ctx context.Context, next *unstructured.Unstructured) error {
	planned, err := deploymentOf(next)
	if err != nil {
		return err
	}
	var all appsv1.DeploymentList
	if err := list(ctx, i.Client, kindNamed("Deployment"), "", controllers+","+managedByLabel+"="+Name, "", &all); err != nil {
		return err
	}
	for n := range all.Items {
		if text := changes(&all.Items[n], planned); text != "" {
			i.Warn(text)
		}
	}
	return nil
}

// changes says which arguments of a controller go and which come, but for its image, which an upgrade is about. It is pure.
func changes(live, planned *appsv1.Deployment) string {
	before, after := argumentsOf(live), argumentsOf(planned)
	missing := func(from, in []string) (names []string) {
		for _, a := range from {
			if !slices.Contains(in, a) && !strings.HasPrefix(a, "--worker-image=") {
				names = append(names, a)
			}
		}
		return names
	}
	var parts []string
	if gone := missing(before, after); len(gone) > 0 {
		parts = append(parts, "without "+strings.Join(gone, " "))
	}
	if added := missing(after, before); len(added) > 0 && len(before) > 0 {
		parts = append(parts, "with "+strings.Join(added, " "))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("the controller %s/%s becomes one %s. Options are not remembered: give those that are to stay.", live.Namespace, live.Name, strings.Join(parts, " and "))
}

func argumentsOf(d *appsv1.Deployment) []string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == componentController {
			return c.Args
		}
	}
	return nil
}
