// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

// flagsName is the ConfigMap in kube-system that remembers the flags of the last installation. It is not in the
// namespace of the installation for two reasons: workers may update ConfigMaps there, and a later installation does not
// know that namespace before it has read the flags.
const flagsName = Name + "-flags"

// flagsKey is the entry with the flags. They are one text, because an entry of a map could never be removed if another
// field manager had applied it as well.
const flagsKey = "flags.yaml"

// memory returns the object that remembers the flags.
func (o Options) memory() (*corev1.ConfigMap, error) {
	flags := o.Flags
	if flags == nil {
		flags = map[string]string{}
	}
	text, err := yaml.Marshal(flags)
	if err != nil {
		return nil, fmt.Errorf("write flags: %w", err)
	}
	return &corev1.ConfigMap{ObjectMeta: meta(componentInstall, metav1.NamespaceSystem, flagsName),
		Data: map[string]string{flagsKey: string(text)}}, nil
}

// Remembered returns the flags of the last installation: the text of their values by name. It returns none if there was
// no installation. The error may be a *access.ForbiddenError.
func Remembered(ctx context.Context, client rest.Interface) (map[string]string, error) {
	k := kindNamed("ConfigMap")
	o, err := read(ctx, client, k, metav1.NamespaceSystem, flagsName)
	switch {
	case apierrors.IsForbidden(err):
		return nil, &access.ForbiddenError{Permission: access.Permission{Verb: "get", Namespace: metav1.NamespaceSystem,
			Resource: k.GroupResource(), Namespaced: true}}
	case err != nil || o == nil:
		return nil, err
	}
	text, _, _ := unstructured.NestedString(o.Object, "data", flagsKey) // absent: no flags
	var flags map[string]string
	if err := yaml.Unmarshal([]byte(text), &flags); err != nil {
		return nil, fmt.Errorf("decode ConfigMap %s/%s: %w", metav1.NamespaceSystem, flagsName, err)
	}
	return flags, nil
}

// Kept returns the resources of some groups that workers may already migrate and that the patterns still include. An
// installation that cannot see a group at the moment must not take away its grants, because no one requested that.
func Kept(ctx context.Context, client rest.Interface, groups, include,
	exclude []string) ([]schema.GroupResource, error) {
	o, err := read(ctx, client, kindNamed("ClusterRole"), "", WorkerAccount)
	if err != nil || o == nil {
		return nil, err
	}
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
		return nil, fmt.Errorf("read ClusterRole %s: %w", WorkerAccount, err)
	}
	var kept []schema.GroupResource
	for _, r := range role.Rules {
		if len(r.APIGroups) != 1 || !slices.Contains(groups, r.APIGroups[0]) || !slices.Contains(r.Verbs, "patch") {
			continue
		}
		for _, name := range r.Resources {
			resource := schema.GroupResource{Group: r.APIGroups[0], Resource: name}
			if (len(include) == 0 || inventory.Matches(include, resource.String())) &&
				!inventory.Matches(exclude, resource.String()) {
				kept = append(kept, resource)
			}
		}
	}
	return kept, nil
}

// reportDifferences reports how existing controllers differ from the planned one.
func (i *Installation) reportDifferences(ctx context.Context, next *unstructured.Unstructured) error {
	planned, err := deploymentOf(next)
	if err != nil {
		return err
	}
	var all appsv1.DeploymentList
	if err := list(ctx, i.Client, kindNamed("Deployment"), "", controllers+","+managedByLabel+"="+Name,
		"", &all); err != nil {
		return err
	}
	for n := range all.Items {
		for _, text := range changes(&all.Items[n], planned) {
			i.Difference(text)
		}
	}
	return nil
}

// changes says how a controller will change: its namespace, its replicas and its arguments, which include the image. It
// is pure.
func changes(live, planned *appsv1.Deployment) []string {
	before, after := argumentsOf(live), argumentsOf(planned)
	if before == nil {
		return nil // this is not a Deployment that we wrote
	}
	var texts []string
	add := func(what, from, to string) {
		if from != to {
			texts = append(texts, fmt.Sprintf("the controller's %s: %s becomes %s", what, from, to))
		}
	}
	add("namespace", live.Namespace, planned.Namespace)
	add("replicas", replicasOf(live), replicasOf(planned))
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(before)),
		slices.Collect(maps.Keys(after))...)))) {
		if name != "--namespace" { // reported above
			add(name, cmp.Or(strings.Join(before[name], ","), "none"), cmp.Or(strings.Join(after[name], ","), "none"))
		}
	}
	return texts
}

func replicasOf(d *appsv1.Deployment) string {
	if d.Spec.Replicas == nil {
		return "1"
	}
	return fmt.Sprint(*d.Spec.Replicas)
}

// argumentsOf returns the values of the controller's flags by name, or nil if there is no controller in the Deployment.
func argumentsOf(d *appsv1.Deployment) map[string][]string {
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name != componentController {
			continue
		}
		values := map[string][]string{}
		for _, argument := range c.Args {
			if name, value, ok := strings.Cut(argument, "="); ok {
				values[name] = append(values[name], value)
			}
		}
		return values
	}
	return nil
}
