// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package access asks an API server whether the client's user, or a ServiceAccount, has the permissions for an
// operation before the operation starts.
//
// It owns the requests (SelfSubjectAccessReview, SubjectAccessReview) and the message about a missing permission. The
// caller decides which permissions are needed. An access review covers what RBAC or another authorizer grants; an
// admission plugin may still refuse the operation.
package access

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// Permission is a verb on a resource.
type Permission struct {
	Verb string
	// Namespace is empty for the whole cluster.
	Namespace string
	Resource  schema.GroupResource
	// Namespaced is whether the resource is namespaced. If it is and Namespace is empty, all namespaces are meant.
	Namespaced bool
	// Subresource is empty for the resource itself.
	Subresource string
}

// ForbiddenError says which permission the user lacks.
type ForbiddenError struct{ Permission }

func (e *ForbiddenError) Error() string {
	where := "at the cluster scope"
	if e.Namespace != "" {
		where = "in the namespace " + e.Namespace
	}
	what := e.Resource.String()
	if e.Subresource != "" {
		what = "the " + e.Subresource + " of " + what
	}
	return fmt.Sprintf("forbidden: cannot %s %s %s", e.Verb, what, where)
}

// Try returns the kubectl command that shows the same.
func (e *ForbiddenError) Try() string {
	try := "kubectl auth can-i " + e.Verb + " " + e.Resource.String()
	if e.Subresource != "" {
		try += " --subresource=" + e.Subresource
	}
	switch {
	case e.Namespace != "":
		try += " -n " + e.Namespace
	case e.Namespaced:
		try += " --all-namespaces" // without it, kubectl asks about the namespace of its context
	}
	return try
}

// Ask asks whether the user of the client has each of the permissions, in this order. The error is a *ForbiddenError
// about the first one that is missing.
func Ask(ctx context.Context, client rest.Interface, needed []Permission) error {
	return AskFor(ctx, client, Account{}, needed)
}

// Account is a ServiceAccount. The zero value stands for the user of the client.
type Account struct{ Namespace, Name string }

// AskFor is Ask about an account. The user of the client has to be allowed to create SubjectAccessReviews.
func AskFor(ctx context.Context, client rest.Interface, account Account, needed []Permission) error {
	asked := map[Permission]bool{}
	for _, p := range needed {
		if asked[p] {
			continue
		}
		asked[p] = true
		allowed, err := ask(ctx, client, account, p)
		if err != nil {
			return fmt.Errorf("ask for permission to %s %s: %w", p.Verb, p.Resource, err)
		}
		if !allowed {
			return &ForbiddenError{p}
		}
	}
	return nil
}

func ask(ctx context.Context, client rest.Interface, account Account, p Permission) (allowed bool, err error) {
	attributes := &authorizationv1.ResourceAttributes{
		Verb: p.Verb, Namespace: p.Namespace, Group: p.Resource.Group, Resource: p.Resource.Resource,
		Subresource: p.Subresource,
	}
	path, review := "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
		any(authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		})
	if account != (Account{}) { // as its tokens are authenticated
		path, review = "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: attributes, User: "system:serviceaccount:" + account.Namespace + ":" + account.Name,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace,
					"system:authenticated"},
			}}
	}
	body, err := json.Marshal(review)
	if err != nil {
		return false, err
	}
	var answer struct {
		Status authorizationv1.SubjectAccessReviewStatus `json:"status"`
	}
	err = apiserver.Send(ctx, client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body),
		&answer)
	return answer.Status.Allowed, err
}
