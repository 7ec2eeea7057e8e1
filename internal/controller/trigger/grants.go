// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// grants lets the worker migrate resources that were created after the installation, by adding them to one ClusterRole.
// RBAC allows the trigger to grant permissions that it does not have (the verb escalate) in this role only, and an
// admission policy of the guard bounds these grants (docs/adr/0016-the-guard.md).
type grants struct {
	rest rest.Interface
	// role is the name of the ClusterRole. If it is empty, nothing is granted.
	role string
}

// admissionGroup contains the resources that admission policies cannot guard.
const admissionGroup = "admissionregistration.k8s.io"

// extend grants the missing permissions that it may grant, and returns the resources.
func (g grants) extend(
	ctx context.Context, lacking map[schema.GroupResource]*access.ForbiddenError, known *inventory.Inventory,
) (granted []schema.GroupResource, err error) {
	for r := range lacking {
		// the policy that bounds the grants allows nothing of this group; install grants what policies can guard of it
		if r.Group != admissionGroup {
			granted = append(granted, r)
		}
	}
	if g.role == "" || len(granted) == 0 {
		return nil, nil
	}
	slices.SortFunc(granted, byName)
	path, err := apipath.Object(rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "", g.role)
	if err != nil {
		return nil, err
	}
	var role rbacv1.ClusterRole
	if err := apiserver.Send(ctx, g.rest.Get().AbsPath(path), &role); err != nil {
		return nil, fmt.Errorf("read ClusterRole %s: %w", g.role, err)
	}
	role.Rules = extended(role.Rules, granted, known)
	body, err := json.Marshal(role)
	if err != nil {
		return nil, fmt.Errorf("encode ClusterRole %s: %w", g.role, err)
	}
	// Under the resourceVersion that was read.
	request := g.rest.Verb(http.MethodPut).AbsPath(path).Param("fieldManager", program).
		SetHeader("Content-Type", "application/json").Body(body)
	if err := apiserver.Send(ctx, request, nil); err != nil {
		return nil, fmt.Errorf("extend ClusterRole %s: %w", g.role, err)
	}
	return granted, nil
}

// extended returns the rules of the role with further resources: one rule per group, in alphabetical order. Resources
// that the cluster no longer has are dropped, unless a part of discovery could not be read. It is pure.
func extended(rules []rbacv1.PolicyRule, more []schema.GroupResource, known *inventory.Inventory) []rbacv1.PolicyRule {
	there := map[schema.GroupResource]bool{}
	for _, r := range known.Resources {
		there[r.GroupResource] = true
	}
	groups := map[string][]string{}
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				if len(known.Failures) > 0 || there[schema.GroupResource{Group: group, Resource: name}] {
					groups[group] = append(groups[group], name)
				}
			}
		}
	}
	for _, r := range more {
		groups[r.Group] = append(groups[r.Group], r.Resource)
	}
	var next []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[group])
		next = append(next, rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: slices.Compact(groups[group]),
			Verbs: []string{"get", "list", "patch"},
		})
	}
	return next
}

func byName(a, b schema.GroupResource) int {
	if a.Group != b.Group {
		if a.Group < b.Group {
			return -1
		}
		return 1
	}
	if a.Resource < b.Resource {
		return -1
	}
	return 1
}
