// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
)

// Kinds that are not installed, but read or removed.
var (
	pods   = kind{gvk("", "v1", "Pod"), "pods", true}
	jobs   = kind{gvk("batch", "v1", "Job"), "jobs", true}
	leases = kind{gvk("coordination.k8s.io", "v1", "Lease"), "leases", true}
	states = kind{v1alpha1.SchemeGroupVersion.WithKind("StorageState"), "storagestates", false}
)

// Rollout waits until all replicas of the applied controller are available.
func (i *Installation) Rollout(ctx context.Context, namespace string) error {
	what := "Deployment " + namespace + "/" + Controller + " is rolled out"
	return await(ctx, i.Timeout, what, i.Progress, func(ctx context.Context) (bool, string, error) {
		d, err := i.readDeployment(ctx, namespace, Controller)
		if err != nil || d == nil {
			return false, "it does not exist", err
		}
		done, state := rolledOut(d)
		if done {
			return true, state, nil
		}
		var running corev1.PodList
		if err := list(ctx, i.Client, pods, namespace, metav1.FormatLabelSelector(d.Spec.Selector), "",
			&running); err != nil {
			return false, "", err
		}
		if why := trouble(d, running.Items); why != "" {
			state += ": " + why
		}
		return false, state, nil
	})
}

// Recorded waits until the controller has recorded for each of the resources in which versions its objects may be stored.
func (i *Installation) Recorded(ctx context.Context, resources []string) error {
	left := resources
	return await(ctx, i.Timeout, "the controller has recorded "+strings.Join(left, ", "), i.Progress,
		func(ctx context.Context) (bool, string, error) {
			for ; len(left) > 0; left = left[1:] {
				state, err := read(ctx, i.Client, states, "", left[0])
				if err != nil || state == nil {
					return false, "the controller has not recorded " + left[0] + " yet", err
				}
				if _, looked, _ := unstructured.NestedString(state.Object, "status", "lastHeartbeatTime"); !looked {
					return false, "the controller has not recorded " + left[0] + " yet", nil
				}
			}
			return true, "", nil
		})
}

func (i *Installation) readDeployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	o, err := read(ctx, i.Client, kindNamed("Deployment"), namespace, name)
	if err != nil || o == nil {
		return nil, err
	}
	return deploymentOf(o)
}

func deploymentOf(o *unstructured.Unstructured) (*appsv1.Deployment, error) {
	raw, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	d := new(appsv1.Deployment)
	return d, json.Unmarshal(raw, d)
}

// rolledOut decides whether a Deployment has reached what its spec asks for. It is pure.
func rolledOut(d *appsv1.Deployment) (done bool, state string) {
	want, status := int32(1), d.Status
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	switch {
	case status.ObservedGeneration < d.Generation:
		return false, "nothing has acted on it yet; kube-controller-manager does"
	case status.UpdatedReplicas < want:
		return false, fmt.Sprintf("%d of %d replicas are updated", status.UpdatedReplicas, want)
	case status.Replicas > want:
		return false, fmt.Sprintf("%d old replicas have to go", status.Replicas-want)
	case status.AvailableReplicas < want:
		return false, fmt.Sprintf("%d of %d replicas are available", status.AvailableReplicas, want)
	}
	return true, ""
}

// trouble returns why replicas are missing, as far as their pods show it. It is pure.
func trouble(d *appsv1.Deployment, running []corev1.Pod) string {
	for _, p := range running {
		for _, c := range p.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" {
				return strings.TrimSuffix("pod "+p.Name+" waits: "+w.Reason+": "+w.Message, ": ")
			}
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				return "pod " + p.Name + " is not scheduled: " + c.Message
			}
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// removeOlder deletes the Deployments that we manage and that the new one does not replace by itself: Deployments with
// another name or namespace, because two controllers would act at once (I8), and a Deployment with another selector,
// because selectors are immutable. It reports whether there was one of the latter.
func (i *Installation) removeOlder(ctx context.Context, next *unstructured.Unstructured) (replaced bool, err error) {
	planned, err := deploymentOf(next)
	if err != nil {
		return false, err
	}
	var all appsv1.DeploymentList
	err = list(ctx, i.Client, kindNamed("Deployment"), "", controllers+","+managedByLabel+"="+Name, "", &all)
	if err != nil {
		return false, err
	}
	named, err := i.readDeployment(ctx, planned.Namespace, planned.Name) // if it is not ours, the user adopts it
	if err != nil {
		return false, err
	}
	var older []*appsv1.Deployment
	for n := range all.Items {
		if d := &all.Items[n]; d.Namespace != planned.Namespace || d.Name != planned.Name {
			older = append(older, d)
		}
	}
	if named != nil && !reflect.DeepEqual(named.Spec.Selector, planned.Spec.Selector) {
		older, replaced = append(older, named), true
	}
	for _, d := range older {
		if err := i.removeDeployment(ctx, d); err != nil {
			return false, err
		}
	}
	return replaced, nil
}

// removeDeployment deletes an older controller and waits until its pods are gone.
func (i *Installation) removeDeployment(ctx context.Context, d *appsv1.Deployment) error {
	k := kindNamed("Deployment")
	if i.Mode != DryRunClient {
		if err := access.Ask(ctx, i.Client, []access.Permission{
			{Verb: "delete", Namespace: d.Namespace, Resource: k.GroupResource()},
			{Verb: "list", Namespace: d.Namespace, Resource: pods.GroupResource()},
		}); err != nil {
			return err
		}
		if _, err := remove(ctx, i.Client, k, d.Namespace, d.Name, d.UID, -1, i.Mode == DryRunServer); err != nil {
			return err
		}
	}
	i.Report(Change{Kind: k.Kind, Namespace: d.Namespace, Name: d.Name, Outcome: Deleted, Note: "an older controller"})
	if i.Mode != Write {
		return nil
	}
	return await(ctx, i.Timeout, "the older controller "+d.Namespace+"/"+d.Name+
		" has ended", i.Progress, func(ctx context.Context) (bool, string, error) {
		now, err := i.readDeployment(ctx, d.Namespace, d.Name)
		if err != nil || now != nil && now.UID == d.UID {
			return false, "the Deployment is being deleted", err
		}
		left, err := found(ctx, i.Client, pods, d.Namespace, metav1.FormatLabelSelector(d.Spec.Selector))
		return err == nil && len(left) == 0, fmt.Sprintf("%d pods are left", len(left)), err
	})
}
