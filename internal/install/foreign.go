// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ForeignError says that something with one of our names belongs to somebody else. Nothing was written.
type ForeignError struct {
	// Definitions and Namespaces that it is, by name.
	Definitions, Namespaces []string
	// Owner is as much as is known of who it belongs to.
	Owner string
	// Workloads are Deployments of the owner, as namespace/name.
	Workloads []string
}

func (e *ForeignError) Error() string {
	if len(e.Definitions) == 0 {
		return fmt.Sprintf("the namespace %s exists and was not made by kube-migrator, which needs one of its own; its owner: %s",
			strings.Join(e.Namespaces, ", "), e.Owner)
	}
	return fmt.Sprintf("CustomResourceDefinition %s exists and belongs to another installation: %s", strings.Join(e.Definitions, ", "), e.Owner)
}

// LeavingError says that something that the plan needs is being deleted. Nothing was written.
type LeavingError struct {
	Kind, Name string
	Resource   schema.GroupResource
}

func (e *LeavingError) Error() string { return "the " + e.Kind + " " + e.Name + " is being deleted" }

// approvedAnnotation is required of definitions in groups that end in k8s.io
// (https://github.com/kubernetes/enhancements/pull/1111).
const approvedAnnotation = "api-approved.kubernetes.io"

// foreignNamespaces are where the other installations run their workloads.
var foreignNamespaces = []string{metav1.NamespaceSystem, "openshift-kube-storage-version-migrator", "openshift-kube-storage-version-migrator-operator"}

// foreign looks for definitions, and a namespace, that have our names and are not ours. The error is a *LeavingError, or about
// reading.
func (i *Installation) foreign(ctx context.Context, plan []*unstructured.Unstructured) (*ForeignError, error) {
	found := &ForeignError{}
	var objects []*unstructured.Unstructured
	for _, o := range plan {
		k, err := kindOf(o)
		if err != nil {
			return nil, err
		}
		if k.Kind != "CustomResourceDefinition" && k.Kind != "Namespace" {
			continue
		}
		live, err := read(ctx, i.Client, k, "", o.GetName())
		if err != nil {
			return nil, err
		}
		if live != nil && live.GetDeletionTimestamp() != nil {
			return nil, &LeavingError{Kind: k.Kind, Name: o.GetName(), Resource: k.GroupResource()}
		}
		if live == nil || live.GetLabels()[managedByLabel] == Name {
			continue
		}
		objects = append(objects, live)
		if k.Kind == "Namespace" {
			found.Namespaces = append(found.Namespaces, o.GetName())
		} else {
			found.Definitions = append(found.Definitions, o.GetName())
		}
	}
	switch {
	case len(objects) == 0:
		return nil, nil
	case len(found.Definitions) == 0:
		found.Owner = ownerOf(objects, nil)
		return found, nil
	}
	for _, namespace := range foreignNamespaces {
		var deployments appsv1.DeploymentList
		err := list(ctx, i.Client, kindNamed("Deployment"), namespace, "", "", &deployments)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		found.Workloads = append(found.Workloads, foreignWorkloads(deployments.Items)...)
	}
	found.Owner = ownerOf(objects, found.Workloads)
	return found, nil
}

// foreignWorkloads returns the Deployments that look like those of another migrator, by name or image.
func foreignWorkloads(deployments []appsv1.Deployment) []string {
	var names []string
	for _, d := range deployments {
		texts := []string{d.Name, d.Namespace}
		for _, c := range d.Spec.Template.Spec.Containers {
			texts = append(texts, c.Image)
		}
		if slices.ContainsFunc(texts, func(text string) bool {
			return strings.Contains(text, "storage-version-migrat") || strings.Contains(text, "storage-migrat")
		}) {
			names = append(names, d.Namespace+"/"+d.Name)
		}
	}
	return names
}

// ownerOf names the owner as well as objects tell it. It is pure.
func ownerOf(objects []*unstructured.Unstructured, workloads []string) string {
	owner, managers := "", map[string]bool{}
	for _, o := range objects {
		annotations, labels := o.GetAnnotations(), o.GetLabels()
		for key := range annotations {
			if strings.HasPrefix(key, "include.release.openshift.io/") {
				owner = "OpenShift's kube-storage-version-migrator"
			}
		}
		if release := annotations["meta.helm.sh/release-name"]; release != "" && owner == "" {
			owner = "the Helm release " + annotations["meta.helm.sh/release-namespace"] + "/" + release
		}
		if by := labels[managedByLabel]; by != "" && owner == "" {
			owner = by
		}
		for _, m := range o.GetManagedFields() {
			if m.Subresource == "" {
				managers[m.Manager] = true
			}
		}
	}
	migrator := slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetAnnotations()[approvedAnnotation] != "" })
	if owner == "" && (migrator || len(workloads) > 0) {
		owner = "kube-storage-version-migrator"
	}
	if owner == "" {
		owner = "unknown"
	}
	var details []string
	if len(workloads) > 0 {
		details = append(details, "Deployment "+strings.Join(workloads, ", "))
	}
	if names := slices.Sorted(maps.Keys(managers)); len(names) > 0 {
		details = append(details, "written by "+strings.Join(names, ", "))
	}
	if len(details) > 0 {
		owner += " (" + strings.Join(details, "; ") + ")"
	}
	return owner
}
