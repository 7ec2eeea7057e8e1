// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ViewerRole and RequesterRole are ClusterRoles for users, so that no one needs cluster-admin to look at migrations or
// to request one. No one has them until an administrator binds them.
const (
	ViewerRole    = Name + "-viewer"
	RequesterRole = Name + "-requester"
)

// viewerRules are what progress, check, plan and wait read. They count no objects: whoever may list a resource anyway
// sees in plan how many it has.
var viewerRules = []rbacv1.PolicyRule{
	rule(migrationGroup, on("storageversionmigrations", "storagestates", "storageversions"), "get", "list", "watch"),
	rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list", "watch"),
	rule("apiregistration.k8s.io", on("apiservices"), "get", "list", "watch"),
	rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list", "watch"),
}

// requesterRules also let a user request, pause, resume, cancel and delete migrations. What a migration may touch is
// the worker's to say, and what it reports is the controller's: no rule is about the status. pause --all is not among
// it: it writes where install remembers its flags, and whoever writes there decides what the next installation grants.
var requesterRules = append(slices.Clone(viewerRules),
	rule(migrationGroup, on("storageversionmigrations"), "create", "delete", "patch"))

// userRoles are the ClusterRoles for users. They are not aggregated to view: migrations name objects that could not be
// rewritten, Secrets included, and repeat what admission says about them, which view shows no one.
func userRoles() []runtime.Object {
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta(componentInstall, "", ViewerRole), Rules: viewerRules},
		&rbacv1.ClusterRole{ObjectMeta: meta(componentInstall, "", RequesterRole), Rules: requesterRules},
	}
}
