// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// documents answers GET requests for these paths, and 404 for others.
type documents map[string]string

func (d documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch text, ok := d[r.URL.Path]; {
	case !ok:
		refuse(w, http.StatusNotFound, "the server could not find the requested resource")
	case text == "":
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	default:
		_, _ = w.Write([]byte(text))
	}
}

const (
	crdPath       = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.example.com"
	serviceOf     = "/apis/apiregistration.k8s.io/v1/apiservices/"
	local         = `{"metadata":{"name":"s"},"spec":{"group":"demo.example.com","version":"v1"}}`
	elsewhere     = `{"metadata":{"name":"s"},"spec":{"group":"demo.example.com","version":"v1","service":{"namespace":"a","name":"b"}}}`
	elsewhereV2   = `{"metadata":{"name":"s"},"spec":{"group":"demo.example.com","version":"v2","service":{"namespace":"a","name":"b"}}}`
	twoVersions   = `{"name":"demo.example.com","versions":[{"version":"v1"},{"version":"v2"}],"preferredVersion":{"version":"v1"}}`
	storedInV2    = `{"metadata":{"name":"widgets.demo.example.com"},"spec":{"group":"demo.example.com","names":{"plural":"widgets","kind":"Widget"},"scope":"Namespaced","versions":[{"name":"v1","served":true},{"name":"v2","served":true,"storage":true}]}}`
	widgetsListed = `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true,"verbs":["list","get","patch"],"storageVersionHash":"sK4Nmv1u1zc="},{"name":"widgets/status","kind":"Widget","namespaced":true,"verbs":["get","patch"]}]}`
	readOnly      = `{"resources":[{"name":"widgets","kind":"Widget","namespaced":true,"verbs":["list","get"]}]}`
)

func TestFindTellsTheTargetFromTheCluster(t *testing.T) {
	widgets := schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}
	served := func(changes documents) documents {
		all := documents{"/apis/demo.example.com": twoVersions, "/apis/demo.example.com/v1": widgetsListed,
			"/apis/demo.example.com/v2": widgetsListed}
		maps.Copy(all, changes)
		return all
	}
	at := func(version string, origin Origin) Target {
		return Target{Resource: widgets.WithVersion(version), Kind: "Widget", Namespaced: true, Origin: origin}
	}
	for name, test := range map[string]struct {
		cluster documents
		name    schema.GroupResource
		want    Target
		fails   func(error) bool
	}{
		"a custom resource is rewritten at its storage version": {cluster: served(documents{crdPath: storedInV2,
			serviceOf + "v1.demo.example.com": local}), want: at("v2", Custom)},
		"without a CRD it is built in, at the preferred version": {cluster: served(nil), want: at("v1", BuiltIn)},
		"a built-in resource whose hash is that of a version is rewritten there": {cluster: served(documents{
			"/apis/demo.example.com/v2": strings.ReplaceAll(widgetsListed, "sK4Nmv1u1zc=",
				storageversion.Hash(schema.GroupVersionKind{Group: "demo.example.com", Version: "v2", Kind: "Widget"}))}),
			want: at("v2", BuiltIn)},
		"an APIService hides a CRD": {cluster: served(documents{crdPath: storedInV2,
			serviceOf + "v1.demo.example.com": elsewhere, serviceOf + "v2.demo.example.com": elsewhereV2}),
			want: at("v1", Aggregated)},
		"an APIService that hides only one version of a CRD is refused": {cluster: served(documents{crdPath: storedInV2,
			serviceOf + "v1.demo.example.com": elsewhere}), fails: is(ErrNotReady)},
		"nothing is guessed without permission to read the CRD": {cluster: served(documents{crdPath: ""}),
			fails: apierrors.IsForbidden},
		"nothing is guessed without permission to read APIServices": {cluster: served(documents{crdPath: storedInV2,
			serviceOf + "v1.demo.example.com": ""}), fails: apierrors.IsForbidden},
		"nothing is guessed when a version cannot be read": {cluster: served(documents{"/apis/demo.example.com/v2": ""}),
			fails: apierrors.IsForbidden},
		"a resource that cannot be patched is refused": {cluster: served(documents{"/apis/demo.example.com/v1": readOnly,
			"/apis/demo.example.com/v2": readOnly}), fails: is(ErrNotReady)},
		"a CRD that is not served is not ready": {cluster: documents{crdPath: storedInV2}, fails: is(ErrNotReady)},
		"what no one serves is gone":            {cluster: documents{}, fails: is(ErrResourceGone)},
		"the core group": {
			cluster: documents{"/api": `{"versions":["v1"]}`, "/api/v1": `{"resources":[{"name":"secrets","kind":"Secret",
				"namespaced":true,"verbs":["list","patch"],"storageVersionHash":"S6u1pOWzb84="}]}`},
			name: schema.GroupResource{Resource: "secrets"},
			want: Target{Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret",
				Namespaced: true, Origin: BuiltIn},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.cluster)
			defer server.Close()
			if test.name.Resource == "" {
				test.name = widgets
			}
			got, err := Find(t.Context(), &rest.Config{Host: server.URL}, test.name)
			if test.fails == nil {
				test.fails = func(err error) bool { return err == nil }
			}
			if got != test.want || !test.fails(err) {
				t.Errorf("%+v (%v), want %+v", got, err, test.want)
			}
		})
	}
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
