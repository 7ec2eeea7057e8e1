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

// ForeignError reports that an object with one of our names belongs to someone else. Nothing was written.
type ForeignError struct {
	// The names of foreign CRDs and namespaces. Controllers are Deployments as namespace/name.
	CRDs, Namespaces, Controllers []string
	// Owner says, as far as is known, who the objects belong to.
	Owner string
	// Workloads are Deployments of the owner, as namespace/name.
	Workloads []string
}

func (e *ForeignError) Error() string {
	var problems []string
	if len(e.CRDs) > 0 {
		problems = append(problems, fmt.Sprintf("CustomResourceDefinition %s exists and belongs to another "+
			"installation", strings.Join(e.CRDs, ", ")))
	}
	if len(e.Namespaces) > 0 {
		problems = append(problems, fmt.Sprintf("the namespace %s exists and was not made by kube-migrator, which "+
			"needs one of its own: %s",
			strings.Join(e.Namespaces, ", "), sharedPower))
	}
	if len(e.Controllers) > 0 {
		problems = append(problems, fmt.Sprintf(
			"Deployment %s is a controller of kube-migrator that something else manages",
			strings.Join(e.Controllers, ", "),
		))
	}
	return strings.Join(problems, "; and ") + "; the owner: " + e.Owner
}

// sharedPower warns of the use of a namespace that others use, too.
const sharedPower = "anyone who may create pods or edit workloads there gets the permissions of the worker"

// UntrustedNamespaceError reports that the user adopts a namespace of others without having said that they trust
// everyone who may write there. Nothing was written.
type UntrustedNamespaceError struct{ Namespace string }

func (e *UntrustedNamespaceError) Error() string {
	return fmt.Sprintf("the namespace %s belongs to others, and --adopt does not say that you trust them: %s",
		e.Namespace, sharedPower)
}

// LeavingError reports that an object of the plan is being deleted. Nothing was written.
type LeavingError struct {
	Kind, Name string
	Resource   schema.GroupResource
}

func (e *LeavingError) Error() string { return "the " + e.Kind + " " + e.Name + " is being deleted" }

// approvedAnnotation is required of CRDs in groups that end in k8s.io
// (https://github.com/kubernetes/enhancements/pull/1111).
const approvedAnnotation = "api-approved.kubernetes.io"

// foreignNamespaces are the namespaces in which other migrators run their workloads.
var foreignNamespaces = []string{metav1.NamespaceSystem, "openshift-kube-storage-version-migrator",
	"openshift-kube-storage-version-migrator-operator"}

// foreign looks for CRDs, a namespace and controllers that have our names and are not ours. It notes whether the
// namespace belongs to someone else, whether or not it was adopted before. Its error is a *LeavingError, or a failed
// read.
func (i *Installation) foreign(ctx context.Context, plan []*unstructured.Unstructured) (*ForeignError, error) {
	found := &ForeignError{}
	var objects, crds []*unstructured.Unstructured
	controllers, err := i.foreignControllers(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range controllers {
		found.Controllers = append(found.Controllers, o.GetNamespace()+"/"+o.GetName())
	}
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
		if k.Kind == "Namespace" {
			i.guest = true
			if live.GetLabels()[guestLabel] == Name { // it was adopted before
				continue
			}
		}
		if k.Kind == "Namespace" {
			found.Namespaces = append(found.Namespaces, o.GetName())
			objects = append(objects, live)
		} else {
			found.CRDs = append(found.CRDs, o.GetName())
			crds = append(crds, live)
		}
	}
	objects = append(objects, controllers...)
	switch {
	case len(objects)+len(crds) == 0:
		return nil, nil
	case len(crds) == 0:
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
	found.Owner = ownerOf(crds, found.Workloads)
	return found, nil
}

// foreignControllers returns the Deployments that have the labels of our controllers and are managed by someone else,
// such as Helm or Argo CD. Deleting one would be pointless, because its manager would create it again.
func (i *Installation) foreignControllers(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var all unstructured.UnstructuredList
	err := list(ctx, i.Client, kindNamed("Deployment"), "", controllers+","+managedByLabel+"!="+Name, "", &all)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for n := range all.Items {
		objects = append(objects, &all.Items[n])
	}
	return objects, nil
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

// ownerOf names the owner as well as the objects show it. It is pure.
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
	migrator := slices.ContainsFunc(objects,
		func(o *unstructured.Unstructured) bool { return o.GetAnnotations()[approvedAnnotation] != "" })
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
