// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ViewerRole and RequesterRole are ClusterRoles for users, so that viewing or requesting migrations does not require
// cluster-admin. They are unbound until an administrator binds them.
const (
	ViewerRole    = Name + "-viewer"
	RequesterRole = Name + "-requester"
)

// viewerRules are the permissions that progress, check, plan and wait need. They do not include counting objects: plan
// shows counts to users who may list the resource anyway.
var viewerRules = []rbacv1.PolicyRule{
	rule(migrationGroup, on("storageversionmigrations", "storagestates", "storageversions"), "get", "list", "watch"),
	rule("apiextensions.k8s.io", on("customresourcedefinitions"), "get", "list", "watch"),
	rule("apiregistration.k8s.io", on("apiservices"), "get", "list", "watch"),
	rule("internal.apiserver.k8s.io", on("storageversions"), "get", "list", "watch"),
}

// requesterRules also let a user request, pause, resume, cancel and delete migrations. They do not cover any status:
// the worker's permissions decide what a migration may touch, and the controller reports its result. They do not cover
// pause --all either: it writes to the ConfigMap in which install remembers its flags, and write access to that
// ConfigMap is control over what the next installation grants.
var requesterRules = append(slices.Clone(viewerRules),
	rule(migrationGroup, on("storageversionmigrations"), "create", "delete", "patch"))

// userRoles are the ClusterRoles for users. They are not aggregated to view, because migrations name objects that could
// not be rewritten, including Secrets, and repeat the messages of admission about them. The role view shows neither.
func userRoles() []runtime.Object {
	return []runtime.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta(componentInstall, "", ViewerRole), Rules: viewerRules},
		&rbacv1.ClusterRole{ObjectMeta: meta(componentInstall, "", RequesterRole), Rules: requesterRules},
	}
}
