// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// twoVersions is an inventory with a custom resource whose storage version is v2, and a built-in one.
var twoVersions = &inventory.Inventory{Resources: []inventory.Resource{
	{GroupResource: widgets, Origin: migrate.Custom, CRD: &inventory.CRD{StorageVersion: "v2"}, Endpoint: "v2",
		Versions: []inventory.Version{{Name: "v2"}, {Name: "v1"}}},
	{GroupResource: schema.GroupResource{Resource: "secrets"}, Origin: migrate.BuiltIn, Endpoint: "v1",
		Versions: []inventory.Version{{Name: "v1"}}},
}}

func TestWithTheGuardOneRoleSaysAtWhichVersionsTheWorkerMayRewrite(t *testing.T) {
	rewrite := func(r rbacv1.PolicyRule, version string) rbacv1.PolicyRule {
		r.ResourceNames = []string{version}
		return r
	}
	ours := schema.GroupResource{Group: migrationGroup, Resource: "storagestates"}
	for name, test := range map[string]struct {
		options   Options
		resources []schema.GroupResource
		known     *inventory.Inventory
		want      []rbacv1.PolicyRule
	}{
		"with a CRD of ours that is not installed yet": {Options{Guard: true},
			[]schema.GroupResource{widgets, {Resource: "secrets"}, ours}, twoVersions, []rbacv1.PolicyRule{
				rewrite(rule("", on("secrets"), "rewrite"), "v1"),
				rewrite(rule(widgets.Group, on("widgets"), "rewrite"), "v2"),
				rewrite(rule(migrationGroup, on("storagestates"), "rewrite"), "v1alpha1"),
			}},
		"for what is included": {Options{Guard: true, Include: []string{"widgets.*"}},
			[]schema.GroupResource{widgets}, twoVersions,
			[]rbacv1.PolicyRule{rewrite(rule(widgets.Group, on("widgets"), "rewrite"), "v2")}},
		"where discovery is not known":                {Options{Guard: true}, nil, nil, nil},
		"and says nothing where there is no guard":    {Options{}, nil, nil, nil},
		"and not of resources that are not included ": {Options{Guard: true}, nil, twoVersions, nil},
	} {
		plan, err := Plan(test.options.Complete(), test.resources, test.known)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, slices.Concat(rulesOf(t, plan, "", versionsRole), nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		writes := slices.ContainsFunc(rulesOf(t, plan, "", ControllerAccount), func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, "escalate") && slices.Contains(r.ResourceNames, versionsRole)
		})
		if writes != test.options.Guard || slices.Contains(test.options.Complete().arguments(),
			"--worker-versions-role="+versionsRole) != writes {
			t.Errorf("%s: the controller keeps the role current: %t", name, writes)
		}
	}
}

// An account that runs an earlier release's workers must not be refused until a later step of the installation.
func TestTheVersionsAreGrantedBeforeThereIsAGuardThatAsksForThem(t *testing.T) {
	plan := planOf(t, Options{Guard: true}, widgets)
	at := func(kindName, name string) int {
		return slices.IndexFunc(plan, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kindName && o.GetName() == name
		})
	}
	role, binding, policy := at("ClusterRole", versionsRole), at("ClusterRoleBinding", versionsRole),
		at("ValidatingAdmissionPolicy", workerPolicy)
	if role < 0 || role > binding || binding > policy {
		t.Errorf("the role is object %d, its binding %d, the policy of the worker %d", role, binding, policy)
	}
}
