// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/grant"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// grants lets the worker migrate resources that were created after the installation, by adding them to one ClusterRole,
// and keeps current in another one at which versions. RBAC allows the trigger to grant permissions that it does not have
// (the verb escalate) in these roles only, and an admission policy of the guard bounds these grants
// (docs/adr/0016-the-guard.md).
type grants struct {
	rest rest.Interface
	// role and versions are the names of the ClusterRoles. If one is empty, nothing is granted in it.
	role, versions string
}

const (
	// guardProbe is an annotation that only dry runs contain.
	guardProbe = "migration.k8s.io/is-the-guard-in-force"
	// grantPolicy is the ValidatingAdmissionPolicy of the guard that refuses it.
	grantPolicy = "kube-migrator-worker-grant"
)

// admissionGroup contains the resources that admission policies cannot guard.
const admissionGroup = "admissionregistration.k8s.io"

// extend grants the missing permissions that it may grant, and returns the resources. It grants nothing while the guard
// is not in force.
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
	path, role, err := g.guardedRole(ctx)
	if err != nil {
		return nil, err
	}
	role.Rules = extended(role.Rules, granted, known)
	if err := g.put(ctx, path, role); err != nil {
		return nil, fmt.Errorf("extend ClusterRole %s: %w", g.role, err)
	}
	return granted, nil
}

// guardedRole reads the role that grants extend. It returns an error unless the guard is in force.
func (g grants) guardedRole(ctx context.Context) (path string, role rbacv1.ClusterRole, err error) {
	if path, role, err = g.read(ctx, g.role); err == nil {
		err = g.verifyGuard(ctx, path, role)
	}
	return path, role, err
}

// isGuarded reports whether the guard is in force.
func (g grants) isGuarded(ctx context.Context) bool {
	_, _, err := g.guardedRole(ctx)
	return err == nil
}

// follow writes at which versions the worker may rewrite, if that has changed. An epoch takes longer to settle than this
// takes, so a run finds its version granted.
func (g grants) follow(ctx context.Context, known *inventory.Inventory, excludes func(names []string) bool) error {
	if g.versions == "" {
		return nil
	}
	path, role, err := g.read(ctx, g.versions)
	if err != nil {
		return err
	}
	next := grant.Next(role.Rules, known, excludes)
	if equality.Semantic.DeepEqual(role.Rules, next) {
		return nil
	}
	role.Rules = next
	if err := g.put(ctx, path, role); err != nil {
		return fmt.Errorf("write the versions in ClusterRole %s: %w", g.versions, err)
	}
	return nil
}

// read returns a ClusterRole and its path.
func (g grants) read(ctx context.Context, name string) (path string, role rbacv1.ClusterRole, err error) {
	path, err = apipath.Object(rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "", name)
	if err != nil {
		return "", role, err
	}
	if err := apiserver.Send(ctx, g.rest.Get().AbsPath(path), &role); err != nil {
		return "", role, fmt.Errorf("read ClusterRole %s: %w", name, err)
	}
	return path, role, nil
}

// errUnguarded means that the API server would let the worker change what the guard protects.
var errUnguarded = errors.New("the guard is not in force")

// verifyGuard returns errUnguarded unless an API server refuses what the guard forbids the controller: here, an
// annotation of the role. The request is a dry run, so it writes nothing. Tools that only apply manifests, such as Helm,
// may start the controller before they write the guard, and a policy or binding can be deleted at any time.
//
// The policy of grants, and its binding, is the last one of the guard in alphabetical order, in which Helm writes them.
// An API server reads all policies and bindings at once, so if it enforces this one, it enforces those that were
// written before. It speaks for the API server that answers (docs/guard.md).
func (g grants) verifyGuard(ctx context.Context, path string, role rbacv1.ClusterRole) error {
	role.Annotations = maps.Clone(role.Annotations)
	metav1.SetMetaDataAnnotation(&role.ObjectMeta, guardProbe, "true")
	err := g.put(ctx, path, role, metav1.DryRunAll)
	if err == nil {
		return fmt.Errorf("%w: the API server allows the controller to annotate ClusterRole %s, which "+
			"ValidatingAdmissionPolicy %s forbids", errUnguarded, g.role, grantPolicy)
	}
	status := apierrors.APIStatus(nil)
	if errors.As(err, &status) && strings.Contains(status.Status().Message, "ValidatingAdmissionPolicy '"+grantPolicy+"'") {
		return nil
	}
	return fmt.Errorf("verify the guard by a dry run for ClusterRole %s: %w", g.role, err)
}

// put writes the role under the resourceVersion that was read.
func (g grants) put(ctx context.Context, path string, role rbacv1.ClusterRole, dryRun ...string) error {
	body, err := json.Marshal(role)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	request := g.rest.Verb(http.MethodPut).AbsPath(path).Param("fieldManager", program).
		SetHeader("Content-Type", "application/json").Body(body)
	for _, d := range dryRun {
		request.Param("dryRun", d)
	}
	return apiserver.Send(ctx, request, nil)
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
