// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
)

// Mode says what Run and Removal.Run send to the API server.
type Mode int

// The modes.
const (
	// Write changes the cluster.
	Write Mode = iota
	// DryRunServer sends everything as a dry run: the API server checks each request and changes nothing.
	DryRunServer
	// DryRunClient only reads.
	DryRunClient
)

// Outcome is what happened to an object, or would happen in a dry run.
type Outcome string

// The outcomes.
const (
	Created    Outcome = "created"
	Configured Outcome = "configured"
	Unchanged  Outcome = "unchanged"
	// Applied means that the object exists, and only the API server could tell whether it would change.
	Applied Outcome = "applied"
	Deleted Outcome = "deleted"
)

// Change is what happened to one object.
type Change struct {
	Kind, Namespace, Name string
	Outcome               Outcome
	// Note is a remark for the reader, or empty.
	Note string
}

// Installation writes a plan to a cluster.
type Installation struct {
	Client rest.Interface
	Mode   Mode
	// Adopt takes over the CRDs of another installation. If TrustNamespace is set as well, it uses an existing
	// namespace; anyone who may create pods there gets the permissions of the worker. A namespace that was adopted
	// before needs neither again.
	Adopt, TrustNamespace bool
	// Timeout bounds each wait.
	Timeout time.Duration
	// Report receives each change as it happens, Difference how the controller will differ from the existing one,
	// Progress what is being waited for, and Warn what the user has to know.
	Report     func(Change)
	Difference func(string)
	Progress   func(string)
	Warn       func(string)

	// guest means that the namespace belongs to someone else.
	guest bool
}

// Run applies the plan in its order. It may be repeated after any error. Before anything is written it may return
// *access.ForbiddenError, *LeavingError, *ForeignError or *UntrustedNamespaceError; later a *TimeoutError, or an error
// of the API server.
func (i *Installation) Run(ctx context.Context, plan []*unstructured.Unstructured) error {
	if err := access.Ask(ctx, i.Client, i.permissions(plan)); err != nil {
		return err
	}
	found, err := i.foreign(ctx, plan)
	switch {
	case err != nil:
		return err
	case found != nil && !i.Adopt:
		return found
	case found != nil && len(found.Namespaces) > 0 && !i.TrustNamespace:
		return &UntrustedNamespaceError{Namespace: found.Namespaces[0]}
	case found != nil:
		for _, c := range found.Controllers {
			if isPlanned(plan, "Deployment", c) {
				continue // the plan takes it over
			}
			i.Warn("Deployment " + c + " is a controller of kube-migrator that something else manages. Stop it: two " +
				"would act at once.")
		}
		for _, w := range found.Workloads {
			i.Warn("Deployment " + w + " of the other installation still runs. Stop it: both would act on the same " +
				"objects.")
		}
	}
	if i.guest {
		plan = asGuest(plan)
	}
	for _, o := range plan {
		if o.GetKind() == "Deployment" {
			if err := i.reportDifferences(ctx, o); err != nil {
				return err
			}
		}
	}
	for n, o := range plan {
		if o.GetKind() == "Deployment" {
			if err := i.guard(ctx, plan, o.GetNamespace()); err != nil {
				return err
			}
			replaced, err := i.removeOlder(ctx, o)
			if err != nil {
				return err
			}
			if replaced && i.Mode != Write {
				i.Report(Change{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Outcome: Created,
					Note: "not checked: the older one is still there"})
				continue
			}
		}
		if err := i.applyOne(ctx, o); err != nil {
			return err
		}
		last := n == len(plan)-1 || plan[n+1].GetKind() != "CustomResourceDefinition"
		if o.GetKind() == "CustomResourceDefinition" && last && i.Mode == Write {
			if err := i.established(ctx, plan[:n+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// isPlanned reports whether an object, as namespace/name, is part of a plan.
func isPlanned(plan []*unstructured.Unstructured, kindName, name string) bool {
	return slices.ContainsFunc(plan, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == kindName && o.GetNamespace()+"/"+o.GetName() == name
	})
}

// asGuest returns the plan for a namespace that belongs to someone else: the namespace only gets a mark. Our Pod
// Security labels would keep the owner's pods from being created again, and our ownership labels would let a purge
// delete what the owner has there.
func asGuest(plan []*unstructured.Unstructured) []*unstructured.Unstructured {
	plan = slices.Clone(plan)
	for n, o := range plan {
		if o.GetKind() == "Namespace" {
			marked := &unstructured.Unstructured{}
			marked.SetGroupVersionKind(o.GroupVersionKind())
			marked.SetName(o.GetName())
			marked.SetLabels(map[string]string{guestLabel: Name})
			plan[n] = marked
		}
	}
	return plan
}

// permissions are the permissions that the user needs to apply the plan. The user also has to hold everything that the
// roles grant; the API server checks that itself and reports it.
func (i *Installation) permissions(plan []*unstructured.Unstructured) []access.Permission {
	verbs := []string{"get", "patch", "create"}
	if i.Mode == DryRunClient {
		verbs = verbs[:1]
	}
	var needed []access.Permission
	for _, o := range plan {
		k, err := kindOf(o)
		if err != nil {
			continue // the API server reports it when the object is applied
		}
		for _, verb := range verbs {
			needed = append(needed, access.Permission{Verb: verb, Namespace: o.GetNamespace(),
				Resource: k.GroupResource(), Namespaced: k.namespaced})
		}
	}
	return append(needed, access.Permission{Verb: "list",
		Resource: kindNamed("Deployment").GroupResource(), Namespaced: true})
}

// applyOne applies an object and reports the outcome.
func (i *Installation) applyOne(ctx context.Context, o *unstructured.Unstructured) error {
	k, err := kindOf(o)
	if err != nil {
		return err
	}
	before, err := read(ctx, i.Client, k, o.GetNamespace(), o.GetName())
	if err != nil {
		return err
	}
	change := Change{Kind: k.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), Outcome: Created}
	if k.Kind == "Namespace" && i.guest {
		change.Note = "only marked: it belongs to others, and uninstall leaves it"
	}
	if i.Mode == DryRunClient {
		if before != nil {
			change.Outcome = Applied
		}
		i.Report(change)
		return nil
	}
	after, err := i.patch(ctx, k, o)
	switch {
	case i.Mode == DryRunServer && before == nil && isNamespaceMissing(err, o):
		change.Note = "not checked: its namespace does not exist yet"
	case err != nil:
		return fmt.Errorf("apply %s %s: %w", k.Kind, o.GetName(), err)
	case before != nil:
		change.Outcome = Configured
		if same(before, after) {
			change.Outcome = Unchanged
		}
	}
	i.Report(change)
	return nil
}

// patch applies an object on the server's side. It takes over fields of other managers that the object sets.
func (i *Installation) patch(ctx context.Context, k kind,
	o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	path, err := k.path(o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	request := i.Client.Patch(types.ApplyPatchType).AbsPath(path).
		Param("fieldManager", FieldManager).Param("force", "true").
		Param("fieldValidation", metav1.FieldValidationStrict).Body(body)
	if i.Mode == DryRunServer {
		request.Param("dryRun", metav1.DryRunAll)
	}
	after := &unstructured.Unstructured{}
	return after, apiserver.Send(ctx, request, &after.Object)
}

// isNamespaceMissing reports whether a dry run failed only because the namespace of the plan does not exist yet.
func isNamespaceMissing(err error, o *unstructured.Unstructured) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || o.GetNamespace() == "" {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Kind == "namespaces" && d.Name == o.GetNamespace()
}

// same reports whether two states of an object are equal apart from status and bookkeeping. resourceVersions do not
// show that, because controllers write status and revisions at any moment.
func same(a, b *unstructured.Unstructured) bool {
	return reflect.DeepEqual(wanted(a), wanted(b))
}

func wanted(o *unstructured.Unstructured) map[string]any {
	w := o.DeepCopy()
	delete(w.Object, "status")
	for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
		unstructured.RemoveNestedField(w.Object, "metadata", field)
	}
	annotations := maps.Clone(w.GetAnnotations())
	delete(annotations, "deployment.kubernetes.io/revision")
	w.SetAnnotations(annotations)
	return w.Object
}

// established waits until the API server serves the CRDs, because the controller needs them when it starts.
func (i *Installation) established(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, o := range crds {
		err := await(ctx, i.Timeout, "CustomResourceDefinition "+o.GetName()+
			" is established", i.Progress, func(ctx context.Context) (bool, string, error) {
			d, err := crd.Get(ctx, i.Client, o.GetName())
			if err != nil {
				return false, "", err
			}
			ok, _ := d.Established()
			return ok, o.GetName() + " is not established yet", nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
