// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// ping says that the process lives.
func ping(*http.Request) error { return nil }

// synced says that what the API server holds is known: from then on a controller can lead.
func synced(c cache.Cache) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the API server's objects are not known yet")
		}
		return nil
	}
}

// authorized lets those read metrics whom the API server knows by their bearer token and allows to get the path. controller-runtime's own
// filter does the same with the code of a whole API server, at 15 MiB of memory; this one asks with two requests.
func authorized(config *rest.Config) func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		c, err := migrate.NewClient(config) // not the guarded one: these reviews change nothing, and every replica answers
		if err != nil {
			return nil, err
		}
		reviews := &reviews{client: c, known: map[string]reviewed{}}
		return func(log logr.Logger, next http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
				if !ok || token == "" {
					http.Error(w, "Unauthorized: send a bearer token", http.StatusUnauthorized)
					return
				}
				code, err := reviews.ask(r.Context(), token, r.URL.Path)
				switch {
				case err != nil:
					log.Error(err, "Cannot ask the API server who may read metrics")
					http.Error(w, "the API server could not be asked", http.StatusInternalServerError)
				case code != http.StatusOK:
					http.Error(w, http.StatusText(code), code)
				default:
					next.ServeHTTP(w, r)
				}
			}), nil
		}, nil
	}
}

// reviewed is an answer that is remembered for a while.
type reviewed struct {
	code  int
	until time.Time
}

// reviews asks the API server who somebody is and what he may do.
type reviews struct {
	client rest.Interface

	mu    sync.Mutex
	known map[string]reviewed // by token and path
}

const (
	reviewLife  = time.Minute
	mostReviews = 1000
)

// ask returns 200, 401 or 403.
func (r *reviews) ask(ctx context.Context, token, path string) (int, error) {
	key := token + " " + path
	r.mu.Lock()
	known, ok := r.known[key]
	r.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.code, nil
	}
	code, err := r.review(ctx, token, path)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostReviews {
		clear(r.known)
	}
	r.known[key] = reviewed{code: code, until: time.Now().Add(reviewLife)}
	return code, nil
}

func (r *reviews) review(ctx context.Context, token, path string) (int, error) {
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
			"nonResourceAttributes": map[string]any{"path": path, "verb": "get"},
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
	result := r.client.Post().AbsPath(path).SetHeader("Accept", "application/json").
		SetHeader("Content-Type", "application/json").Body(bytes.NewReader(body)).Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		return fmt.Errorf("post review: %w", result.Error())
	}
	return json.Unmarshal(raw, answer)
}
