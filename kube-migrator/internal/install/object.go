// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
)

// kind is one kind of object that an installation contains.
type kind struct {
	schema.GroupVersionKind
	resource   string
	namespaced bool
}

// kinds maps kinds of objects to their paths. It is in the order of removal: first the permissions to write, then the
// workloads that write, then the rest (I7).
var kinds = []kind{
	{gvk("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding"), "clusterrolebindings", false},
	{gvk("rbac.authorization.k8s.io", "v1", "RoleBinding"), "rolebindings", true},
	{gvk("apps", "v1", "Deployment"), "deployments", true},
	{gvk("", "v1", "ServiceAccount"), "serviceaccounts", true},
	{gvk("rbac.authorization.k8s.io", "v1", "ClusterRole"), "clusterroles", false},
	{gvk("rbac.authorization.k8s.io", "v1", "Role"), "roles", true},
	{gvk("policy", "v1", "PodDisruptionBudget"), "poddisruptionbudgets", true},
	{gvk("networking.k8s.io", "v1", "NetworkPolicy"), "networkpolicies", true},
	{gvk("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"), "flowschemas", false},
	{gvk("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration"), "prioritylevelconfigurations", false},
	// The guard is removed after everything that it restricts.
	{gvk("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
		"validatingadmissionpolicybindings", false},
	{gvk("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"), "validatingadmissionpolicies", false},
	{gvk("", "v1", "ConfigMap"), "configmaps", true},
	{gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "customresourcedefinitions", false},
	{gvk("", "v1", "Namespace"), "namespaces", false},
}

func gvk(group, version, k string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: k}
}

// kindNamed returns the entry of a kind in the table.
func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.Kind == name {
			return k
		}
	}
	panic("no kind " + name) // a mistake in this package, which its tests would find
}

// GroupResource returns the resource of the kind.
func (k kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.resource}
}

// path returns the path of an object of the kind; with an empty name, that of the collection; with an empty namespace
// as well, that of the collection in all namespaces.
func (k kind) path(namespace, name string) (string, error) {
	if !k.namespaced {
		namespace = ""
	}
	resource := k.GroupVersion().WithResource(k.resource)
	if name == "" {
		return apipath.Collection(resource, namespace)
	}
	return apipath.Object(resource, namespace, name)
}

// kindOf returns the kind of an object.
func kindOf(o *unstructured.Unstructured) (kind, error) {
	for _, k := range kinds {
		if k.GroupVersionKind == o.GroupVersionKind() {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("no path is known for %s", o.GroupVersionKind())
}

// object converts a typed object to the form that is sent: without status and without fields that the API server sets.
func object(kindName string, typed runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", kindName, err)
	}
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(kindNamed(kindName).GroupVersionKind)
	delete(o.Object, "status")
	if spec, ok := o.Object["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(o.Object, "spec")
	}
	withoutNull(o.Object)
	return o, nil
}

// withoutNull removes null values, such as the creationTimestamp of a pod template. If they were applied, they would
// claim ownership of fields.
func withoutNull(value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, field := range v {
			if field == nil {
				delete(v, key)
			}
			withoutNull(field)
		}
	case []any:
		for _, element := range v {
			withoutNull(element)
		}
	}
}

// meta returns the metadata of an object of a component.
func meta(component, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels(component)}
}
