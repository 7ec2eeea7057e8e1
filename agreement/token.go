// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// DiscoveryAccount is the ServiceAccount whose tokens aggregated API servers are shown, in the namespace of an
// installation. It is allowed nothing that any other authenticated user is not.
const DiscoveryAccount = "kube-migrator-discovery"

const (
	// tokenLifetime is asked for; a token is replaced when three quarters of what was granted are over.
	tokenLifetime = time.Hour
	// tokenAgainAfter is how long it is taken for granted that there are no tokens.
	tokenAgainAfter = 10 * time.Minute
)

// AccountToken returns tokens of the DiscoveryAccount, for Options.DiscoveryToken. Where there is no such account, or
// the client may not ask for its tokens, the token is "" and aggregated API servers are asked without credentials. Safe
// for concurrent use. The client comes from migrate.NewClient.
func AccountToken(client rest.Interface, namespace string) func(context.Context) (string, error) {
	a := &account{client: client, path: fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token",
		namespace, DiscoveryAccount)}
	return a.token
}

// account keeps a token until it should be replaced.
type account struct {
	client rest.Interface
	path   string

	mu    sync.Mutex
	held  string
	until time.Time
}

func (a *account) token(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Before(a.until) {
		return a.held, nil
	}
	request, err := json.Marshal(authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenLifetime / time.Second))},
	})
	if err != nil {
		return "", err
	}
	status := 0
	answer, err := a.client.Post().AbsPath(a.path).SetHeader("Content-Type",
		"application/json").Body(request).Do(ctx).StatusCode(&status).Raw()
	if status == http.StatusForbidden || status == http.StatusNotFound {
		a.held, a.until = "", now.Add(tokenAgainAfter)
		return "", nil
	}
	var granted authenticationv1.TokenRequest
	if err == nil {
		err = json.Unmarshal(answer, &granted)
	}
	if err != nil {
		return "", fmt.Errorf("ask for a token at %s: %w", a.path, err)
	}
	lifetime := tokenLifetime
	if s := granted.Spec.ExpirationSeconds; s != nil { // by the server's own count: clocks may differ
		lifetime = time.Duration(*s) * time.Second
	}
	a.held, a.until = granted.Status.Token, now.Add(lifetime*3/4)
	return a.held, nil
}
