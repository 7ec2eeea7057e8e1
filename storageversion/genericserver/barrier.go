// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package genericserver

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// barrier is storageversion.Barrier for a publisher that is known only once the API groups are installed. It also
// refuses writes to resources that the server stores without publishing them.
func (p *Publication) barrier(next http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if r, ok := p.unpublished(request); ok {
			err := apierrors.NewServiceUnavailable("this server stores " + r.String() + " without publishing its storage " +
				"version: Publication.InstallAPIGroups has not installed it")
			responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{Group: r.Group}, w, request)
			return
		}
		p.mu.RLock()
		publisher := p.publisher
		p.mu.RUnlock()
		if publisher == nil { // nothing is persisted
			next.ServeHTTP(w, request)
			return
		}
		storageversion.Barrier(publisher, next).ServeHTTP(w, request)
	})
}

// unpublished returns the resource of a write to a store that is not published.
func (p *Publication) unpublished(request *http.Request) (r schema.GroupResource, ok bool) {
	info, known := genericrequest.RequestInfoFrom(request.Context())
	if !known || !info.IsResourceRequest ||
		slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, request.Method) {
		return r, false
	}
	r = schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return r, p.stores.has(r) && !p.publishes(r)
}
