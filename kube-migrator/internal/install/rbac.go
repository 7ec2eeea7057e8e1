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
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/grant"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// migrationGroup is the group of our CRDs.
var migrationGroup = v1alpha1.SchemeGroupVersion.Group

// migratedRules let the worker rewrite the migrated resources: one rule for everything, or one per group, in
// alphabetical order. RBAC cannot deny, and its wildcards include the policies of the guard, and get on nodes/proxy,
// with which kubelets run commands. So with the guard the rules name resources.
func (o Options) migratedRules(resources []schema.GroupResource) []rbacv1.PolicyRule {
	verbs := []string{"get", "list", "patch"}
	if !o.Names() {
		return []rbacv1.PolicyRule{rule(rbacv1.APIGroupAll, on(rbacv1.ResourceAll), verbs...)}
	}
	groups := map[string][]string{}
	for _, r := range resources {
		if o.Guard && inventory.ExemptFromPolicies(r) {
			continue // patching a policy could disable the guard, so an administrator migrates these
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

// inventoryRules are what it takes to know which resources exist, in addition to discovery. system:discovery and
// system:basic-user grant discovery, /version and SelfSubjectAccessReviews, which controller and worker need as well,
// to every authenticated user.
var inventoryRules = []rbacv1.PolicyRule{
	rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list"),
	rule("apiregistration.k8s.io", on("apiservices"), "get", "list"),
	// those of kube-apiservers, and those of the services behind APIServices, in any namespace
	rule("discovery.k8s.io", on("endpointslices"), "list"),
	// API servers publish here what they store. Worker and controller have to see the same, or they would see different
	// epochs.
	rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list"),
	rule(migrationGroup, on("storageversions"), "get", "list"),
}

// workerRules are what the worker needs in addition to the resources that it migrates: it reads its migration.
var workerRules = append(slices.Clone(inventoryRules),
	rule(migrationGroup, on("storageversionmigrations"), "get"),
	metricsRules[0],
)

// workerNamespaceRules apply in the namespace of the installation. The worker does not create its checkpoint; the
// controller does.
var workerNamespaceRules = []rbacv1.PolicyRule{
	rule("", on("configmaps"), "get", "update"),
	discoveryTokens(),
}

// discoveryTokens allows requesting tokens of the account that authenticates to aggregated API servers. Those tokens
// grant nothing else.
func discoveryTokens() rbacv1.PolicyRule {
	tokens := rule("", on("serviceaccounts/token"), "create")
	tokens.ResourceNames = []string{discovery.Account}
	return tokens
}

// comparedRules let the controller read the position of collections without reading their objects: it may list one name
// only, which no object has.
func (o Options) comparedRules(resources []schema.GroupResource) []rbacv1.PolicyRule {
	o.Guard = false // the guard does not concern the controller, which patches none of these
	rules := o.migratedRules(resources)
	for i := range rules {
		rules[i].Verbs, rules[i].ResourceNames = []string{"list"}, []string{inventory.NoObject}
	}
	return rules
}

// controllerRules are the permissions that the controller needs in the whole cluster. It reads no objects of migrated
// resources.
func controllerRules(namespace string) []rbacv1.PolicyRule {
	own := rule("", on("namespaces"), "get")
	own.ResourceNames = []string{namespace}
	finalize := rule("", on("namespaces/finalizers"), "update") // the namespace owns the migrations that it requests
	finalize.ResourceNames = []string{namespace}
	return []rbacv1.PolicyRule{
		rule(migrationGroup, on("storageversionmigrations"), "create", "delete", "get", "list", "patch", "watch"),
		rule(migrationGroup, on("storageversionmigrations/finalizers"), "update"), // migrations own checkpoints
		rule(migrationGroup, on("storageversionmigrations/status"), "update"),
		rule(migrationGroup, on("storagestates"), "create", "delete", "get", "list", "watch"),
		rule(migrationGroup, on("storagestates/status"), "update"),
		// it removes what crashed API servers have published, if no namespace contains a valid Lease of theirs
		rule(migrationGroup, on("storageversions"), "delete", "get", "list", "watch"),
		rule(migrationGroup, on("storageversions/status"), "update"),
		rule("coordination.k8s.io", on("leases"), "list"),
		rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list", "watch"),
		rule("storagemigration.k8s.io", on("storageversionmigrations"), "list"),
		rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list", "watch"),
		// it prunes storedVersions after proof (I2)
		rule("apiextensions.k8s.io", on("customresourcedefinitions/status"), "patch"),
		rule("apiregistration.k8s.io", on("apiservices"), "get", "list", "watch"),
		rule("discovery.k8s.io", on("endpointslices"), "list"),
		rule("events.k8s.io", on("events"), "create", "patch"),
		rule("authentication.k8s.io", on("tokenreviews"), "create"), // it authenticates readers of /metrics
		rule("authorization.k8s.io", on("subjectaccessreviews"), "create"),
		own,
		finalize,
		metricsRules[0],
	}
}

// controllerNamespaceRules are the permissions that the controller needs in the namespace of the installation. It
// updates ConfigMaps to give workers runs and to stop them, and to end a run whose worker no longer reports.
func controllerNamespaceRules() []rbacv1.PolicyRule {
	lease := rule("coordination.k8s.io", on("leases"), "get", "update")
	lease.ResourceNames = []string{Controller}
	return []rbacv1.PolicyRule{
		rule("batch", on("jobs"), "create", "delete", "get", "list", "patch", "watch"),
		rule("batch", on("jobs/finalizers"), "update"), // a Job owns its roster
		rule("", on("configmaps"), "create", "delete", "get", "list", "update", "watch"),
		discoveryTokens(),
		rule("coordination.k8s.io", on("leases"), "create"), // a rule cannot name an object that does not exist yet
		lease,
	}
}

// extendRules let the controller grant the worker, in one ClusterRole each, resources that are created after the
// installation, and the versions. A policy of the guard bounds these grants (Options.grants). Without the guard they are
// not needed.
func (o Options) extendRules() []rbacv1.PolicyRule {
	if !o.Guard {
		return nil
	}
	extend := rule(rbacv1.GroupName, on("clusterroles"), "escalate", "get", "update")
	extend.ResourceNames = []string{versionsRole}
	if o.Extends() {
		extend.ResourceNames = []string{laterRole, versionsRole}
	}
	return []rbacv1.PolicyRule{extend}
}

// later is the ClusterRole that the controller extends. When it does, install does not apply the rules, so that another
// install keeps them.
func (o Options) later() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: meta(componentWorker, "", laterRole)}
	if !o.Extends() {
		role.Rules = []rbacv1.PolicyRule{} // removes the grants of an earlier installation
	}
	return role
}

// versions is the ClusterRole that says at which versions the worker may rewrite the resources, and that the controller
// keeps current. Where discovery is not known, the controller writes all rules.
func (o Options) versions(resources []schema.GroupResource, known *inventory.Inventory) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: meta(componentWorker, "", versionsRole)}
	if !o.Guard {
		role.Rules = []rbacv1.PolicyRule{} // removes the grants of an earlier installation
	}
	if !o.Guard || known == nil {
		return role
	}
	versions := grant.Of(slices.DeleteFunc(slices.Clone(known.Resources),
		func(r inventory.Resource) bool { return !slices.Contains(resources, r.GroupResource) }))
	for _, r := range resources {
		if r.Group == migrationGroup && versions[r] == nil { // these CRDs are installed after the look
			versions[r] = []string{v1alpha1.SchemeGroupVersion.Version}
		}
	}
	role.Rules = versions.Rules()
	return role
}

func clusterBinding(component, name string, subject rbacv1.Subject) runtime.Object {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: meta(component, "", name), RoleRef: roleRef("ClusterRole", name),
		Subjects: []rbacv1.Subject{subject}}
}

// metricsRules allow reading metrics: those of the controller, and those of kube-apiservers, which show when a process
// started. Releases before 1.35 show it nowhere else.
var metricsRules = []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}

// roles returns all roles and their bindings, except versionsRole.
func (o Options) roles(resources []schema.GroupResource) map[string][]runtime.Object {
	controller, worker := o.account(ControllerAccount), o.account(WorkerAccount)
	clusterRole := func(component, name string, rules []rbacv1.PolicyRule) runtime.Object {
		return &rbacv1.ClusterRole{ObjectMeta: meta(component, "", name), Rules: rules}
	}
	role := func(component, namespace, name string, rules ...rbacv1.PolicyRule) runtime.Object {
		return &rbacv1.Role{ObjectMeta: meta(component, namespace, name), Rules: rules}
	}
	binding := func(component, namespace, name string, subjects ...rbacv1.Subject) runtime.Object {
		return &rbacv1.RoleBinding{ObjectMeta: meta(component, namespace, name),
			RoleRef: roleRef("Role", name), Subjects: subjects}
	}
	const system, public = metav1.NamespaceSystem, metav1.NamespaceDefault
	paused := rule("", on("configmaps"), "get") // tells whether everything is paused
	paused.ResourceNames = []string{flagsName}
	return map[string][]runtime.Object{
		"ClusterRole": {
			clusterRole(componentController, ControllerAccount,
				slices.Concat(controllerRules(o.Namespace), o.comparedRules(resources), o.extendRules())),
			clusterRole(componentWorker, WorkerAccount, append(o.migratedRules(resources), workerRules...)),
			o.later(),
			// for scrapers: an administrator binds it
			clusterRole(componentController, metricsReader, metricsRules),
		},
		"ClusterRoleBinding": {
			clusterBinding(componentController, ControllerAccount, controller),
			clusterBinding(componentWorker, WorkerAccount, worker),
			clusterBinding(componentWorker, laterRole, worker),
		},
		"Role": {
			role(componentController, o.Namespace, ControllerAccount, controllerNamespaceRules()...),
			role(componentWorker, o.Namespace, WorkerAccount, workerNamespaceRules...),
			// Agreement lists Leases, which a rule cannot restrict to names. The controller also watches for API
			// servers that come and go.
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
