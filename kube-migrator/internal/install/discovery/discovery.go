// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package discovery names the ServiceAccount with which an installation reads the discovery of aggregated API servers,
// and requests its tokens. It grants nothing: kube-migrator/internal/install creates the account and the permission to request them.
package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// Account is the ServiceAccount, in the namespace of an installation, whose tokens kube-migrator sends to aggregated
// API servers. It has no more permissions than any other authenticated user.
const Account = "kube-migrator-discovery"

const (
	// lifetime is the requested lifetime of a token. A token is replaced after three quarters of the lifetime that was
	// granted.
	lifetime = time.Hour
	// retryAfter is how long to wait before requesting another token after the API server has refused one.
	retryAfter = 10 * time.Minute
)

// Tokens returns a function that returns tokens of Account, for Options.DiscoveryToken of agreement. If the account
// does not exist, or the client may not request its tokens, the token is "" and aggregated API servers are asked
// without credentials. The function is safe for concurrent use. The client comes from apiserver.NewClient.
func Tokens(client rest.Interface, namespace string) func(context.Context) (string, error) {
	t := &tokens{client: client, path: fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token",
		namespace, Account)}
	return t.token
}

// tokens keeps a token until it should be replaced.
type tokens struct {
	client rest.Interface
	path   string

	mu    sync.Mutex
	held  string
	until time.Time
}

func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) {
		return t.held, nil
	}
	request, err := json.Marshal(authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime / time.Second))},
	})
	if err != nil {
		return "", err
	}
	var granted authenticationv1.TokenRequest
	err = apiserver.Send(ctx, t.client.Post().AbsPath(t.path).SetHeader("Content-Type", "application/json").Body(request),
		&granted)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		t.held, t.until = "", now.Add(retryAfter)
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask for a token at %s: %w", t.path, err)
	}
	valid := lifetime
	if s := granted.Spec.ExpirationSeconds; s != nil { // a duration, because clocks may differ
		valid = time.Duration(*s) * time.Second
	}
	t.held, t.until = granted.Status.Token, now.Add(valid*3/4)
	return t.held, nil
}
