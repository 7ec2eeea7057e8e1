// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// Included returns the resources that may be migrated, sorted by name: those of the inventory that can be migrated, and
// ours, which may not be in the cluster yet. The same patterns give the same answer before and after the installation.
// The error is that of inventory.Select.
func Included(all *inventory.Inventory, include, exclude []string) ([]schema.GroupResource, error) {
	crds, err := ourCRDs()
	if err != nil {
		return nil, err
	}
	var own []schema.GroupResource
	for _, d := range crds {
		own = append(own, schema.ParseGroupResource(d.GetName()))
	}
	known, err := knownPatterns(all, include, own)
	if err != nil {
		return nil, err
	}
	selected, err := all.Select(len(include) == 0, known, exclude)
	if err != nil {
		return nil, err
	}
	var resources []schema.GroupResource
	for _, r := range selected {
		if r.Problem == nil {
			resources = append(resources, r.GroupResource)
		}
	}
	for _, r := range own {
		if (len(include) == 0 || inventory.Matches(include, r.String())) && !inventory.Matches(exclude, r.String()) {
			resources = append(resources, r)
		}
	}
	slices.SortFunc(resources, func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	return slices.Compact(resources), nil
}

// knownPatterns removes patterns that match only resources of this installation.
func knownPatterns(all *inventory.Inventory, patterns []string, own []schema.GroupResource) ([]string, error) {
	var known []string
	for _, pattern := range patterns {
		_, err := all.Select(false, []string{pattern}, nil)
		unknown := (*inventory.NotFoundError)(nil)
		matches := func(r schema.GroupResource) bool { return inventory.Matches([]string{pattern}, r.String()) }
		if errors.As(err, &unknown) && slices.ContainsFunc(own, matches) {
			continue
		}
		if err != nil {
			return nil, err
		}
		known = append(known, pattern)
	}
	return known, nil
}

// Portable returns the resources that a plan names where the cluster is not known, such as in a chart. With the guard and
// without patterns, the controller grants the worker all others as it finds them. These it may not grant, because a
// policy of the guard lets it grant nothing of their group (Options.grants).
func Portable(o Options) []schema.GroupResource {
	if !o.Extends() {
		return nil
	}
	const group = admissionregistrationv1.GroupName
	return []schema.GroupResource{
		{Group: group, Resource: "mutatingwebhookconfigurations"},
		{Group: group, Resource: "validatingwebhookconfigurations"},
	}
}

// Plan returns the objects of an installation in the order in which they are written: objects that others refer to come
// first, the controller comes last. The options have to be complete. resources are those that may be migrated; known is
// what discovery shows, or nil where that is not known. Both are used only if Options.Names holds. It is pure.
func Plan(
	o Options, resources []schema.GroupResource, known *inventory.Inventory,
) ([]*unstructured.Unstructured, error) {
	plan, err := ourCRDs()
	if err != nil {
		return nil, err
	}
	memory, err := o.memory()
	if err != nil {
		return nil, err
	}
	granted := o.roles(resources)
	steps := []struct {
		kind    string
		objects []runtime.Object
	}{
		{"Namespace", []runtime.Object{o.namespace()}},
		{"ConfigMap", []runtime.Object{memory}}, // early: if a later step fails, the flags are remembered
		{"PriorityLevelConfiguration", []runtime.Object{priorityLevel()}},
		{"FlowSchema", []runtime.Object{o.flowSchema()}}, // before anything may write
		// It grants nothing by itself, and the worker of an earlier installation needs it as soon as there is the guard.
		{"ClusterRole", []runtime.Object{o.versions(resources, known)}},
		{"ClusterRoleBinding", []runtime.Object{clusterBinding(componentWorker, versionsRole, o.account(WorkerAccount))}},
		{"ValidatingAdmissionPolicy", o.guarded(asObjects(o.policies()))},
		{"ValidatingAdmissionPolicyBinding", o.guarded(asObjects(o.bindings()))},
		{"NetworkPolicy", []runtime.Object{o.networkPolicy()}},
		{"ServiceAccount", asObjects(o.serviceAccounts())},
		{"ClusterRole", append(granted["ClusterRole"], userRoles()...)},
		{"Role", granted["Role"]},
		{"ClusterRoleBinding", granted["ClusterRoleBinding"]},
		{"RoleBinding", granted["RoleBinding"]},
		{"PodDisruptionBudget", []runtime.Object{o.disruptionBudget()}},
		{"Deployment", []runtime.Object{o.deployment()}},
	}
	for _, step := range steps {
		for _, typed := range step.objects {
			converted, err := object(step.kind, typed)
			if err != nil {
				return nil, err
			}
			plan = append(plan, converted)
		}
	}
	return plan, nil
}

// guarded returns objects of the guard, or none without the guard.
func (o Options) guarded(objects []runtime.Object) []runtime.Object {
	if !o.Guard {
		return nil
	}
	return objects
}

func asObjects[T runtime.Object](typed []T) []runtime.Object {
	objects := make([]runtime.Object, len(typed))
	for i, t := range typed {
		objects[i] = t
	}
	return objects
}

// ourCRDs returns the CRDs of kube-migrator, with the labels of the installation.
func ourCRDs() ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("find CRDs: %w", err)
	}
	var all []*unstructured.Unstructured
	for _, file := range files {
		raw, err := config.CRDs.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read CRD: %w", err)
		}
		d := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &d.Object); err != nil {
			return nil, fmt.Errorf("decode CRD %s: %w", file, err)
		}
		d.SetLabels(labels(componentInstall))
		all = append(all, d)
	}
	return all, nil
}

// JSON returns objects as a List, for tools that apply it themselves.
func JSON(objects []*unstructured.Unstructured) ([]byte, error) {
	list, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return append(list, '\n'), nil
}

// YAML returns objects as a stream of documents, for tools that apply it themselves.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var stream []byte
	for _, o := range objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("write YAML of %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		stream = append(append(stream, "---\n"...), document...)
	}
	return stream, nil
}
