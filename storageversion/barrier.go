// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// exception is why a request passes the barrier though its resource's entry may not stand.
//
// The five of the KEP are listed under "Updating StorageVersion" in
// https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/2339-storageversion-api-for-ha-api-servers.
type exception string

const (
	// barred: none applies.
	barred exception = ""
	// ownPublication is the KEP's first: "a request sent by the loopbackClient and is destined to the storageVersion
	// API". As in kube-apiserver's filter (k8s.io/apiserver/pkg/endpoints/filters, WithStorageVersionPrecondition) the
	// sender does not matter: this middleware may run before authentication. It applies to servers that serve a
	// StorageVersion API themselves.
	ownPublication exception = "destined to the StorageVersion API"
	// reading is the KEP's second: "the verb of the request is GET". HEAD and OPTIONS do not write either.
	reading exception = "reads"
	// notPersisted is the KEP's third: "the request is for an API that is not persisted". Such a resource of one of the
	// server's groups is not among the publisher's Resources. A dry run of a resource that is persisted does not pass:
	// not every server knows it.
	notPersisted exception = "is not persisted"
	// aggregated is the KEP's fourth: "the request is for an aggregated API, because the request is handled by the
	// aggregated API server". It is a request for a group of which this server stores nothing.
	aggregated exception = "is handled by another API server"
	// custom is the KEP's fifth: "the request is for a custom resource, because the apiextension apiserver makes sure
	// that it updates the storage version before it serves the CR". A server that delegates to one does not list its
	// resources either, so a request of this kind looks like one of the fourth, and is not told from it.
	custom = aggregated
	// nonResource is an addition of kube-apiserver's filter: the request is not for a resource, such as /healthz.
	nonResource exception = "is not for a resource"
)

// Barrier returns a handler that lets a write of one of the publisher's resources through only while the publisher is
// sure that the resource's entry stands. Before and after, the write is answered with 503, Retry-After and a Status, so
// that clients try again. Everything else passes at once; see the package documentation. Subresources are written with
// their resource, and wait with it.
//
// The context of a write that has passed is cancelled when the entry may no longer stand. A handler must not store
// anything any more once its request's context is done, nor after it has returned: the publisher counts a write as
// finished when next.ServeHTTP returns.
//
// Paths are those of Kubernetes: /apis/<group>/<version>/… and /api/<version>/…, with nothing before them.
func Barrier(p *Publisher, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		resource, passes := p.judge(request)
		if passes != barred {
			next.ServeHTTP(w, request)
			return
		}
		ctx, leave, err := p.gate.enter(request.Context(), resource)
		if err != nil {
			// the reason is the readiness check's: it may name addresses, and the client is perhaps a stranger
			refuse(w, resource)
			return
		}
		defer leave()
		next.ServeHTTP(w, request.WithContext(ctx))
	})
}

// judge returns the exception that applies to a request, or the resource whose entry it waits for.
func (p *Publisher) judge(request *http.Request) (schema.GroupResource, exception) {
	if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, request.Method) {
		return schema.GroupResource{}, reading
	}
	resource, ok := p.resourceOf(request)
	switch {
	case !ok:
		return resource, nonResource
	case resource.Resource == storageVersions &&
		(resource.Group == string(InternalAPI) || resource.Group == string(MigrationAPI)):
		return resource, ownPublication
	case p.gate.knows(resource):
		return resource, barred
	case slices.ContainsFunc(p.entries.order, func(r schema.GroupResource) bool { return r.Group == resource.Group }):
		return resource, notPersisted
	}
	return resource, aggregated
}

const storageVersions = "storageversions"

// resourceOf returns what resource a request is for. A path with escaped slashes is read in two ways by different
// handlers: the way counts that leads to a resource of the publisher.
func (p *Publisher) resourceOf(request *http.Request) (schema.GroupResource, bool) {
	resource, ok := parse(strings.Split(path.Clean(request.URL.Path), "/"))
	if request.URL.RawPath == "" || ok && p.gate.knows(resource) {
		return resource, ok
	}
	segments := strings.Split(path.Clean(request.URL.RawPath), "/")
	for i, escaped := range segments {
		if segment, err := url.PathUnescape(escaped); err == nil {
			segments[i] = segment
		}
	}
	if other, also := parse(segments); also && p.gate.knows(other) {
		return other, true
	}
	return resource, ok
}

// parse reads the segments of a path, of which the first is empty:
//
//	/apis/<group>/<version>/[namespaces/<namespace>/]<resource>[/<name>[/<subresource>]]
//	/api/<version>/[namespaces/<namespace>/]<resource>[/<name>[/<subresource>]]
func parse(segments []string) (r schema.GroupResource, ok bool) {
	if len(segments) < 2 {
		return r, false
	}
	rest := segments[2:]
	switch {
	case segments[1] == "apis" && len(rest) > 0:
		r.Group, rest = rest[0], rest[1:]
	case segments[1] != "api":
		return r, false
	}
	if len(rest) < 2 { // the version alone, or nothing
		return r, false
	}
	rest = rest[1:]
	// A namespace is an object, too, with subresources of its own.
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		rest = rest[2:]
	}
	r.Resource = rest[0]
	return r, r.Resource != ""
}

// refuse answers as an API server does that cannot take a write yet.
func refuse(w http.ResponseWriter, r schema.GroupResource) {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Message:  "this server cannot take writes of " + r.String() + " until its storage version is published",
		Reason:   metav1.StatusReasonServiceUnavailable,
		Details:  &metav1.StatusDetails{Group: r.Group, Kind: r.Resource, RetryAfterSeconds: retryAfterSeconds},
		Code:     http.StatusServiceUnavailable,
	})
	if err != nil {
		body = nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", strconv.Itoa(retryAfterSeconds))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(body) // the client may be gone
}
