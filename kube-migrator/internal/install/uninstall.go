// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
)

// ErrInUse reports that a namespace to purge contains an object that does not belong to the installation.
var ErrInUse = errors.New("the namespace is in use")

// quickly is how many seconds a pod gets to end. It cannot write any more, so it has nothing to finish.
const quickly = 2

// Removal removes an installation from a cluster. It finds the objects by their labels, in all namespaces.
type Removal struct {
	Client rest.Interface
	Mode   Mode
	// Purge also removes state: CRDs with all their objects, and the namespace.
	Purge bool
	// Timeout bounds each wait.
	Timeout time.Duration
	// Report receives each change as it happens, Progress what is being waited for.
	Report   func(Change)
	Progress func(string)

	// namespaces of the installation.
	namespaces []string
}

// Run removes what exists. It may be repeated after any error, and does nothing if nothing is left. Before anything is
// removed it may return *access.ForbiddenError or ErrInUse; later a *TimeoutError, or an error of the API server.
func (r *Removal) Run(ctx context.Context) error {
	if err := access.Ask(ctx, r.Client, r.permissions()); err != nil {
		return err
	}
	if err := r.findNamespaces(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{
		r.all("ClusterRoleBinding"), r.all("RoleBinding"), // from here on our accounts can write nothing
		r.all("Deployment"), r.workers,
		r.all("ServiceAccount"), r.pods, // without the account no pod can be created again
		r.checkpoints,
		r.lease,
		r.all("ClusterRole"), r.all("Role"), r.all("PodDisruptionBudget"), r.all("NetworkPolicy"), r.all("FlowSchema"),
		r.all("PriorityLevelConfiguration"),
		r.memory, r.stopped,
		// no worker is left for these to restrict
		r.all("ValidatingAdmissionPolicyBinding"), r.all("ValidatingAdmissionPolicy"),
	}
	if r.Purge {
		steps = append(steps, r.all("CustomResourceDefinition"), r.gone("CustomResourceDefinition"), r.leave,
			r.all("Namespace"), r.gone("Namespace"))
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// State returns what Run leaves without Purge: the CRDs and namespaces, as "Kind name".
func (r *Removal) State(ctx context.Context) ([]string, error) {
	var names []string
	for _, name := range []string{"CustomResourceDefinition", "Namespace"} {
		left, err := found(ctx, r.Client, kindNamed(name), "", ours)
		if err != nil {
			return nil, err
		}
		for _, o := range left {
			names = append(names, name+" "+o.Name)
		}
	}
	return names, nil
}

func (r *Removal) permissions() []access.Permission {
	verbs := []string{"list", "delete"}
	if r.Mode == DryRunClient {
		verbs = verbs[:1]
	}
	var needed []access.Permission
	if r.Purge {
		for _, k := range used {
			needed = append(needed, access.Permission{Verb: "list", Resource: k.GroupResource(),
				Namespaced: k.namespaced})
		}
	}
	for _, k := range append(slices.Clone(kinds), pods, jobs, leases) {
		for _, verb := range verbs {
			state := k.Kind == "CustomResourceDefinition" || k.Kind == "Namespace"
			if !state || r.Purge || verb == "list" {
				needed = append(needed, access.Permission{Verb: verb, Resource: k.GroupResource(),
					Namespaced: k.namespaced})
			}
		}
	}
	return needed
}

// used are the kinds, besides pods, which show that someone else uses a namespace: workloads that may have no pod at
// the moment, and data that a deletion would lose.
var used = []kind{
	kindNamed("Deployment"),
	{gvk("apps", "v1", "StatefulSet"), "statefulsets", true},
	{gvk("batch", "v1", "CronJob"), "cronjobs", true},
	{gvk("", "v1", "PersistentVolumeClaim"), "persistentvolumeclaims", true},
}

// leave removes our mark from namespaces that belong to someone else.
func (r *Removal) leave(ctx context.Context) error {
	k := kindNamed("Namespace")
	marked, err := found(ctx, r.Client, k, "", guestLabel+"="+Name)
	if err != nil {
		return err
	}
	for _, o := range marked {
		if r.Mode != DryRunClient {
			body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:null}}}`, o.UID, guestLabel)
			path, err := k.path("", o.Name)
			if err != nil {
				return fmt.Errorf("take the mark off a namespace: %w", err)
			}
			request := r.Client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", FieldManager).Body(body)
			if r.Mode == DryRunServer {
				request.Param("dryRun", metav1.DryRunAll)
			}
			if err := apiserver.Send(ctx, request, nil); err != nil {
				return fmt.Errorf("take the mark off namespace %s: %w", o.Name, err)
			}
		}
		r.Report(Change{Kind: k.Kind, Name: o.Name, Outcome: Configured, Note: "it belongs to others, and stays"})
	}
	return nil
}

// isOurs decides by the account of a pod and not by its labels, because what matters is whether the pod could still
// write.
func isOurs(p corev1.Pod) bool {
	return p.Spec.ServiceAccountName == ControllerAccount || p.Spec.ServiceAccountName == WorkerAccount
}

// all returns the step that removes every object of a kind with our labels.
func (r *Removal) all(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		k := kindNamed(name)
		objects, err := found(ctx, r.Client, k, "", ours)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := r.remove(ctx, k, o.ObjectMeta, -1); err != nil {
				return err
			}
		}
		return nil
	}
}

// workers removes the Jobs, and with them their rosters.
func (r *Removal) workers(ctx context.Context) error {
	for _, namespace := range r.namespaces {
		objects, err := found(ctx, r.Client, jobs, namespace, componentLabel+"="+componentWorker)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := r.remove(ctx, jobs, o.ObjectMeta, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkpoints removes those of runs that have not ended. The migrations that own them stay.
func (r *Removal) checkpoints(ctx context.Context) error {
	k := kindNamed("ConfigMap")
	for _, namespace := range r.namespaces {
		objects, err := found(ctx, r.Client, k, namespace, ours+","+componentLabel+"="+componentWorker)
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := r.remove(ctx, k, o.ObjectMeta, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// pods ends the pods that still run, without waiting for garbage collection, which would give each its full grace
// period.
func (r *Removal) pods(ctx context.Context) error {
	left, err := r.running(ctx)
	if err != nil || r.Mode != Write {
		return err
	}
	for _, p := range left {
		if p.DeletionTimestamp != nil {
			continue
		}
		if _, err := remove(ctx, r.Client, pods, p.Namespace, p.Name, p.UID, quickly, false); err != nil {
			return err
		}
	}
	return nil
}

func (r *Removal) running(ctx context.Context) ([]corev1.Pod, error) {
	var running []corev1.Pod
	for _, namespace := range r.namespaces {
		var all corev1.PodList
		if err := list(ctx, r.Client, pods, namespace, "", "", &all); err != nil {
			return nil, err
		}
		for _, p := range all.Items {
			if isOurs(p) {
				running = append(running, p)
			}
		}
	}
	return running, nil
}

// lease removes the Lease of the leader election, which the controller created.
func (r *Removal) lease(ctx context.Context) error {
	for _, namespace := range r.namespaces {
		o, err := read(ctx, r.Client, leases, namespace, Controller)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		if err := r.remove(ctx, leases, metav1.ObjectMeta{Namespace: namespace, Name: Controller,
			UID: o.GetUID()}, -1); err != nil {
			return err
		}
	}
	return nil
}

// memory removes the remembered flags.
func (r *Removal) memory(ctx context.Context) error {
	k := kindNamed("ConfigMap")
	o, err := read(ctx, r.Client, k, metav1.NamespaceSystem, flagsName)
	if err != nil || o == nil || o.GetLabels()[managedByLabel] != Name {
		return err
	}
	return r.remove(ctx, k, metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: flagsName, UID: o.GetUID(),
		DeletionTimestamp: o.GetDeletionTimestamp()}, -1)
}

// remove deletes one object and reports it. It does not report an object that is being deleted already.
func (r *Removal) remove(ctx context.Context, k kind, o metav1.ObjectMeta, grace int64) error {
	if o.DeletionTimestamp != nil {
		return nil
	}
	if r.Mode != DryRunClient {
		removed, err := remove(ctx, r.Client, k, o.Namespace, o.Name, o.UID, grace, r.Mode == DryRunServer)
		if err != nil || !removed {
			return err
		}
	}
	r.Report(Change{Kind: k.Kind, Namespace: o.Namespace, Name: o.Name, Outcome: Deleted})
	return nil
}

// stopped waits until no pod runs.
func (r *Removal) stopped(ctx context.Context) error {
	if r.Mode != Write {
		return nil
	}
	return await(ctx, r.Timeout, "all pods of kube-migrator have ended", r.Progress, func(ctx context.Context) (bool,
		string, error) {
		left, err := r.running(ctx)
		if err != nil || len(left) == 0 {
			return err == nil, "", err
		}
		if err := r.pods(ctx); err != nil { // one may have been created while we deleted others
			return false, "", err
		}
		names := make([]string, len(left))
		for i, p := range left {
			names[i] = p.Name
		}
		return false, "still there: " + strings.Join(names, ", "), nil
	})
}

// gone returns the step that waits until nothing of a kind is left.
func (r *Removal) gone(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if r.Mode != Write {
			return nil
		}
		return await(ctx, r.Timeout, "everything of the kind "+name+
			" is deleted", r.Progress, func(ctx context.Context) (bool, string, error) {
			k := kindNamed(name)
			left, err := found(ctx, r.Client, k, "", ours)
			if err != nil || len(left) == 0 {
				return err == nil, "", err
			}
			state := left[0].Name + " is being deleted"
			live, err := read(ctx, r.Client, k, "", left[0].Name)
			if err != nil {
				return false, "", err
			}
			if live != nil {
				if why := terminating(live); why != "" {
					state += ": " + why
				}
			}
			return false, state, nil
		})
	}
}

// terminating returns what the API server reports about an object that it is deleting, or "". It is pure.
func terminating(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var words []string
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		status, message := condition["status"], condition["message"]
		if name, _ := condition["type"].(string); status == "True" && message != nil &&
			(name == "Terminating" || strings.HasPrefix(name, "Namespace")) {
			words = append(words, fmt.Sprint(message))
		}
	}
	if len(words) == 0 && len(o.GetFinalizers()) > 0 {
		return "it has the finalizers " + strings.Join(o.GetFinalizers(), ", ")
	}
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); len(words) == 0 &&
		phase == "Terminating" {
		return "kube-controller-manager has to empty it"
	}
	return strings.Join(words, "; ")
}
