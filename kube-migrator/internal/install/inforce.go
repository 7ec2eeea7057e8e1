// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
)

// Guardable reports whether the API server serves the kinds of objects that the guard needs. Releases from 1.30 on do.
func Guardable(ctx context.Context, client rest.Interface) (bool, error) {
	var served metav1.APIResourceList
	err := apiserver.Send(ctx, client.Get().AbsPath("/apis/admissionregistration.k8s.io/v1"), &served)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read which admission policies the API server serves: %w", err)
	}
	for _, k := range guardKinds() {
		if !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource }) {
			return false, nil
		}
	}
	return true, nil
}

// guardKinds are the kinds of the guard, in the order of their removal.
func guardKinds() []kind {
	return []kind{kindNamed("ValidatingAdmissionPolicyBinding"), kindNamed("ValidatingAdmissionPolicy")}
}

func isGuarded(plan []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(
		plan, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ValidatingAdmissionPolicy" },
	)
}

// guard runs before the controller starts workers: it waits until the guard of the plan is in force, or removes an
// existing guard if the plan has none.
func (i *Installation) guard(ctx context.Context, plan []*unstructured.Unstructured, namespace string) error {
	switch {
	case !isGuarded(plan):
		return i.unguard(ctx)
	case i.Mode == Write:
		return i.verifyGuard(ctx, namespace)
	}
	return nil
}

// unguard removes the policies of an earlier installation.
func (i *Installation) unguard(ctx context.Context) error {
	for _, k := range guardKinds() {
		old, err := found(ctx, i.Client, k, "", ours)
		if apierrors.IsForbidden(err) {
			i.Warn("A guard of an earlier installation may be left: forbidden: cannot list " +
				k.GroupResource().String() + " at the cluster scope.")
			return nil
		}
		if err != nil {
			return err
		}
		for _, o := range old {
			if i.Mode != DryRunClient {
				if _, err := remove(ctx, i.Client, k, "", o.Name, o.UID, -1, i.Mode == DryRunServer); err != nil {
					return err
				}
			}
			i.Report(Change{Kind: k.Kind, Name: o.Name, Outcome: Deleted, Note: "there is no guard any more"})
		}
	}
	return nil
}

// verifyGuard waits until an API server refuses what the guard forbids. An API server learns of a policy, and compiles
// it, about a second after it was written. The probe is a token request that install sends as the worker, by
// impersonation and in a dry run. It needs only the worker's role in the namespace of the installation, and the token
// would be for an account without permissions. The policy that is written last refuses the probe, and only because of
// the token's lifetime.
//
// The probe shows this for the API server that answers it. install usually cannot reach the addresses of the others.
// Each of them watches policies by itself and compiles new ones once a second, and before a worker sends its first
// request, a node has to pull the image and start a pod (docs/guard.md says what remains).
func (i *Installation) verifyGuard(ctx context.Context, namespace string) error {
	err := access.Ask(ctx, i.Client, []access.Permission{
		{Verb: "impersonate", Namespace: namespace,
			Resource: kindNamed("ServiceAccount").GroupResource(), Namespaced: true},
	})
	if forbidden := (*access.ForbiddenError)(nil); errors.As(err, &forbidden) {
		i.Warn("Cannot verify that the guard is in force: " + forbidden.Error() +
			". To verify it: " + forbidden.Try())
		return nil
	}
	if err != nil {
		return err
	}
	return await(ctx, i.Timeout, "the guard is in force (ValidatingAdmissionPolicy "+workerPolicy+
		")", i.Progress, func(ctx context.Context) (bool, string, error) {
		return i.probe(ctx, namespace)
	})
}

// probe asks once whether the guard is in force.
func (i *Installation) probe(ctx context.Context, namespace string) (inForce bool, state string, err error) {
	path, err := apipath.Object(corev1.SchemeGroupVersion.WithResource("serviceaccounts"), namespace,
		discovery.Account, "token")
	if err != nil {
		return false, "", err
	}
	body, err := json.Marshal(authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(probeExpiration))},
	})
	if err != nil {
		return false, "", fmt.Errorf("encode token request: %w", err)
	}
	err = apiserver.Send(ctx, i.Client.Post().AbsPath(path).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", anyJSON).
		SetHeader("Impersonate-User", "system:serviceaccount:"+namespace+":"+WorkerAccount).Body(body), nil)
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return false, "the API server lets the worker do what the guard forbids", nil
	case !errors.As(err, &status):
		return false, "", err
	case strings.Contains(status.Status().Message, "ValidatingAdmissionPolicy '"+workerPolicy+"'"):
		return true, "", nil
	case status.Status().Code == http.StatusForbidden,
		status.Status().Code == http.StatusNotFound: // the role and the account are as new as the policy
		return false, err.Error(), nil
	}
	return false, "", err
}
