// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scrape

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
)

// reviews asks the API server which user a token belongs to, and whether that user may get Path. controller-runtime's
// own filter does the same with the code of a whole API server, which takes 15 MiB of memory; this takes two requests.
type reviews struct {
	client rest.Interface
	asking chan struct{} // contains one element per question in progress

	mu               sync.Mutex
	allowed, refused remembered
}

// remembered contains answers by the digest of the token. Tokens are not kept.
type remembered map[[sha256.Size]byte]answer

type answer struct {
	code  int
	until time.Time
}

const (
	allowedLife = time.Minute
	// refusedLife is short, so that a role that has just been bound takes effect soon.
	refusedLife = 5 * time.Second
	// maxRemembered bounds each of the two kinds of answers separately, so that refusals do not displace the answers
	// for permitted scrapers.
	maxRemembered = 1000
	// maxAsking bounds how many questions to the API server are in progress at the same time; patience is how long a
	// request waits for its question.
	maxAsking     = 4
	patience      = 5 * time.Second
	reviewTimeout = 10 * time.Second
)

// errBusy reports that too many requests are waiting to be authenticated.
var errBusy = errors.New("too many concurrent reviews")

func newReviews(config *rest.Config) (*reviews, error) {
	c, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &reviews{client: c, asking: make(chan struct{}, maxAsking), allowed: remembered{},
		refused: remembered{}}, nil
}

// ask returns 200, 401 or 403.
func (r *reviews) ask(ctx context.Context, token string) (code int, err error) {
	digest := sha256.Sum256([]byte(token))
	if code := r.recall(digest); code != 0 {
		return code, nil
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-waiting.Done():
		return 0, errBusy
	}
	if code := r.recall(digest); code != 0 { // another request of the same scraper has asked in the meantime
		return code, nil
	}
	ctx, cancel = context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if code, err = r.review(ctx, token); err != nil {
		return 0, err
	}
	r.remember(digest, code)
	return code, nil
}

// recall returns a remembered answer, or 0.
func (r *reviews) recall(digest [sha256.Size]byte) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range []remembered{r.allowed, r.refused} {
		if a, ok := known[digest]; ok && time.Now().Before(a.until) {
			return a.code
		}
	}
	return 0
}

func (r *reviews) remember(digest [sha256.Size]byte, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, validity := r.refused, refusedLife
	if code == http.StatusOK {
		known, validity = r.allowed, allowedLife
	}
	if len(known) >= maxRemembered {
		clear(known)
	}
	known[digest] = answer{code: code, until: time.Now().Add(validity)}
}

func (r *reviews) review(ctx context.Context, token string) (int, error) {
	var who struct {
		Status struct {
			Authenticated bool            `json:"authenticated"`
			User          json.RawMessage `json:"user"`
		} `json:"status"`
	}
	err := r.post(ctx, "/apis/authentication.k8s.io/v1/tokenreviews", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": token},
	}, &who)
	if err != nil || !who.Status.Authenticated {
		return http.StatusUnauthorized, err
	}
	var user struct {
		Username string              `json:"username"`
		UID      string              `json:"uid"`
		Groups   []string            `json:"groups"`
		Extra    map[string][]string `json:"extra"`
	}
	if err := json.Unmarshal(who.Status.User, &user); err != nil {
		return 0, fmt.Errorf("decode user: %w", err)
	}
	var may struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	err = r.post(ctx, "/apis/authorization.k8s.io/v1/subjectaccessreviews", map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": map[string]any{
			"user": user.Username, "uid": user.UID, "groups": user.Groups, "extra": user.Extra,
			"nonResourceAttributes": map[string]any{"path": Path, "verb": "get"},
		},
	}, &may)
	switch {
	case err != nil:
		return 0, err
	case !may.Status.Allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (r *reviews) post(ctx context.Context, path string, review, answer any) error {
	body, err := json.Marshal(review)
	if err != nil {
		return err
	}
	request := r.client.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(bytes.NewReader(body))
	if err := apiserver.Send(ctx, request, answer); err != nil {
		return fmt.Errorf("post review: %w", err)
	}
	return nil
}
