// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// migrationGroup is the group of our own CRDs.
var migrationGroup = v1alpha1.SchemeGroupVersion.Group

// migratedRules let the worker do its work on what is migrated: one rule for everything, or one per group, in
// alphabetical order. RBAC cannot deny, and its wildcards include the policies of the guard and get on nodes/proxy,
// with which kubelets run commands. So with the guard the rules name resources.
func (o Options) migratedRules(resources []schema.GroupResource) []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "patch"}
	if !o.Names() {
		return []rbacv1.PolicyRule{rule(rbacv1.APIGroupAll, on(rbacv1.ResourceAll), verbs...)}
	}
	groups := map[string][]string{}
	for _, r := range resources {
		if o.Guard && inventory.ExemptFromPolicies(r) {
			continue // whoever may patch a policy can take the guard away; an administrator migrates these
		}
		groups[r.Group] = append(groups[r.Group], r.Resource)
	}
	var rules []rbacv1.PolicyRule
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[group])
		rules = append(rules, rule(group, slices.Compact(groups[group]), verbs...))
	}
	return rules
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

func on(resources ...string) []string { return resources }

// Discovery, /version and SelfSubjectAccessReviews, which both need, are granted to everybody who is authenticated, by
// system:discovery and system:basic-user.

// inventoryRules are what it takes to know which resources there are, next to discovery.
var inventoryRules = []rbacv1.PolicyRule{
	rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list"),
	rule("apiregistration.k8s.io", on("apiservices"), "get", "list"),
	// of kube-apiservers, and of the services behind APIServices, wherever they are
	rule("discovery.k8s.io", on("endpointslices"), "list"),
	// Where API servers publish what they store. Worker and controller see the same, or their epochs would not be the
	// same.
	rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list"),
	rule(migrationGroup, on("storageversions"), "get", "list"),
}

// workerRules are what the worker needs next to what it migrates: its order.
var workerRules = append(slices.Clone(inventoryRules),
	rule(migrationGroup, on("storageversionmigrations"), "get"),
)

// workerNamespaceRules, in the namespace of the installation: the checkpoint is created by the controller.
var workerNamespaceRules = []rbacv1.PolicyRule{
	rule("", on("configmaps"), "get", "update"),
	discoveryTokens(),
}

// discoveryTokens lets someone be known to aggregated API servers without showing them a token that is good for
// anything.
func discoveryTokens() rbacv1.PolicyRule {
	tokens := rule("", on("serviceaccounts/token"), "create")
	tokens.ResourceNames = []string{discovery.Account}
	return tokens
}

// comparedRules let the controller ask how far collections have come, and read no object of them: it may list one name
// alone.
func (o Options) comparedRules(resources []schema.GroupResource) []rbacv1.PolicyRule {
	o.Guard = false // it is not for the controller, which patches none of them
	rules := o.migratedRules(resources)
	for i := range rules {
		rules[i].Verbs, rules[i].ResourceNames = []string{"list"}, []string{inventory.NoObject}
	}
	return rules
}

// controllerRules are what the controller needs in the whole cluster. It reads no object of what is migrated.
func controllerRules(namespace string) []rbacv1.PolicyRule {
	own := rule("", on("namespaces"), "get")
	own.ResourceNames = []string{namespace}
	finalize := rule("", on("namespaces/finalizers"), "update") // the owner of what it requests on start-up
	finalize.ResourceNames = []string{namespace}
	return []rbacv1.PolicyRule{
		rule(migrationGroup, on("storageversionmigrations"), "create", "delete", "get", "list", "patch", "watch"),
		rule(migrationGroup, on("storageversionmigrations/finalizers"), "update"), // the owner of checkpoints
		rule(migrationGroup, on("storageversionmigrations/status"), "update"),
		rule(migrationGroup, on("storagestates"), "create", "delete", "get", "list", "watch"),
		rule(migrationGroup, on("storagestates/status"), "update"),
		// removes what crashed API servers have published, if no namespace has a Lease of theirs that counts
		rule(migrationGroup, on("storageversions"), "delete", "get", "list", "watch"),
		rule(migrationGroup, on("storageversions/status"), "update"),
		rule("coordination.k8s.io", on("leases"), "list"),
		rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list", "watch"),
		rule("storagemigration.k8s.io", on("storageversionmigrations"), "list"),
		rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list", "watch"),
		// prunes storedVersions after proof (I2)
		rule("apiextensions.k8s.io", on("customresourcedefinitions/status"), "patch"),
		rule("apiregistration.k8s.io", on("apiservices"), "get", "list", "watch"),
		rule("discovery.k8s.io", on("endpointslices"), "list"),
		rule("events.k8s.io", on("events"), "create", "patch"),
		rule("authentication.k8s.io", on("tokenreviews"), "create"), // who reads /metrics
		rule("authorization.k8s.io", on("subjectaccessreviews"), "create"),
		own,
		finalize,
	}
}

// controllerNamespaceRules are what the controller needs in the namespace of the installation. It updates ConfigMaps to
// give workers their next run, and to end a run whose worker is not heard of any more.
func controllerNamespaceRules() []rbacv1.PolicyRule {
	lease := rule("coordination.k8s.io", on("leases"), "get", "update")
	lease.ResourceNames = []string{Controller}
	return []rbacv1.PolicyRule{
		rule("batch", on("jobs"), "create", "delete", "get", "list", "patch", "watch"),
		rule("batch", on("jobs/finalizers"), "update"), // the owner of a roster
		rule("", on("configmaps"), "create", "delete", "get", "list", "update", "watch"),
		discoveryTokens(),
		rule("coordination.k8s.io", on("leases"), "create"), // a name cannot restrict what does not exist yet
		lease,
	}
}

// extendRules let the controller grant the worker what comes after the installation, in one ClusterRole. A policy of
// the guard bounds what that is (Options.grants): without the guard there is no need for it.
func (o Options) extendRules() []rbacv1.PolicyRule {
	if !o.Extends() {
		return nil
	}
	extend := rule(rbacv1.GroupName, on("clusterroles"), "escalate", "get", "update")
	extend.ResourceNames = []string{laterRole}
	return []rbacv1.PolicyRule{extend}
}

// later is the ClusterRole that the controller extends. install does not apply its rules then, so that another install
// keeps them.
func (o Options) later() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: meta(componentWorker, "", laterRole)}
	if !o.Extends() {
		role.Rules = []rbacv1.PolicyRule{} // takes away what an earlier installation granted
	}
	return role
}

// metricsRules let someone read the controller's metrics.
var metricsRules = []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}

// roles returns everything that grants something.
func (o Options) roles(resources []schema.GroupResource) map[string][]runtime.Object {
	controller, worker := o.account(ControllerAccount), o.account(WorkerAccount)
	sweeps := worker // whoever runs sweeps
	if o.Workers == InProcess {
		sweeps = controller
	}
	clusterRole := func(component, name string, rules []rbacv1.PolicyRule) runtime.Object {
		return &rbacv1.ClusterRole{ObjectMeta: meta(component, "", name), Rules: rules}
	}
	clusterBinding := func(component, name string, subject rbacv1.Subject) runtime.Object {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta(component, "", name), RoleRef: roleRef("ClusterRole", name),
			Subjects: []rbacv1.Subject{subject}}
	}
	role := func(component, namespace, name string, rules ...rbacv1.PolicyRule) runtime.Object {
		return &rbacv1.Role{ObjectMeta: meta(component, namespace, name), Rules: rules}
	}
	binding := func(component, namespace, name string, subjects ...rbacv1.Subject) runtime.Object {
		return &rbacv1.RoleBinding{ObjectMeta: meta(component, namespace, name),
			RoleRef: roleRef("Role", name), Subjects: subjects}
	}
	const system, public = metav1.NamespaceSystem, metav1.NamespaceDefault
	paused := rule("", on("configmaps"), "get") // whether everything is paused
	paused.ResourceNames = []string{flagsName}
	return map[string][]runtime.Object{
		"ClusterRole": {
			clusterRole(componentController, ControllerAccount,
				slices.Concat(controllerRules(o.Namespace), o.comparedRules(resources), o.extendRules())),
			clusterRole(componentWorker, WorkerAccount, append(o.migratedRules(resources), workerRules...)),
			o.later(),
			// for whoever scrapes: bound by the administrator
			clusterRole(componentController, metricsReader, metricsRules),
		},
		"ClusterRoleBinding": {
			clusterBinding(componentController, ControllerAccount, controller),
			clusterBinding(componentWorker, WorkerAccount, sweeps),
			clusterBinding(componentWorker, laterRole, sweeps),
		},
		"Role": {
			role(componentController, o.Namespace, ControllerAccount, controllerNamespaceRules()...),
			role(componentWorker, o.Namespace, WorkerAccount, workerNamespaceRules...),
			// The agreement lists: names cannot restrict that. The controller also waits for API servers to come and
			// go.
			role(componentInstall, system, agreementRole, rule("coordination.k8s.io", on("leases"), "list")),
			role(componentController, system, ControllerAccount,
				rule("coordination.k8s.io", on("leases"), "get", "list", "watch"), paused),
			role(componentController, public, ControllerAccount,
				rule("discovery.k8s.io", on("endpointslices"), "watch")),
		},
		"RoleBinding": {
			binding(componentController, o.Namespace, ControllerAccount, controller),
			binding(componentWorker, o.Namespace, WorkerAccount, worker),
			binding(componentInstall, system, agreementRole, worker),
			binding(componentController, system, ControllerAccount, controller),
			binding(componentController, public, ControllerAccount, controller),
		},
	}
}

func (o Options) account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: o.Namespace, Name: name}
}

func roleRef(k, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: k, Name: name}
}
