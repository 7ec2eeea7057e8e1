// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// maxBody bounds what a client may send, in bytes.
const maxBody = 1 << 20

// server answers requests for gears.
type server struct {
	etcd               *clientv3.Client
	id, encoding, hash string
	decodable          []string
	delay              time.Duration // before a write is stored
}

func (s *server) handler(ready func(*http.Request) error) http.Handler {
	const (
		root       = "/apis/" + group + "/{version}"
		collection = root + "/namespaces/{namespace}/" + resource
		object     = collection + "/{name}"
	)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET "+root, s.discovery)
	mux.HandleFunc("GET "+root+"/"+resource, s.all)
	mux.HandleFunc("GET "+collection, s.all)
	mux.HandleFunc("POST "+collection, s.create)
	for method, change := range map[string]func(request, *gear) (*gear, error){
		http.MethodGet: nil, http.MethodPut: replace, http.MethodPatch: merge,
		http.MethodDelete: remove,
	} {
		mux.HandleFunc(method+" "+object, func(w http.ResponseWriter, r *http.Request) { s.one(w, r, change) })
	}
	return mux
}

// discovery shows the hash as the flag says: that of Kubernetes, one of the server's own making, or none.
func (s *server) discovery(w http.ResponseWriter, r *http.Request) {
	stored := schema.GroupVersionKind{Group: group, Version: s.encoding, Kind: kind}
	hash := map[string]string{"kubernetes": storageversion.Hash(stored), "opaque": "stored-as-" + s.encoding}[s.hash]
	answer(w, http.StatusOK, metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: group + "/" + r.PathValue("version"),
		APIResources: []metav1.APIResource{{
			Name: resource, SingularName: "gear", Kind: kind, Namespaced: true, StorageVersionHash: hash,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update"},
		}},
	})
}

func (s *server) all(w http.ResponseWriter, r *http.Request) {
	below := prefix
	if namespace := r.PathValue("namespace"); namespace != "" {
		below += namespace + "/"
	}
	query := r.URL.Query()
	limit, _ := strconv.ParseInt(query.Get("limit"), 10, 64) // 0: no limit
	gears, meta, err := s.list(r.Context(), below, limit, query.Get("continue"))
	if err != nil {
		refuse(w, r, err)
		return
	}
	items := make([]any, len(gears))
	for i, g := range gears {
		items[i] = show(r, g)
	}
	list := map[string]any{"apiVersion": group + "/" + r.PathValue("version"), "kind": kind + "List",
		"metadata": meta, "items": items}
	if wantsMetadata(r) {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	answer(w, http.StatusOK, list)
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	var sent gear
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&sent); err != nil {
		refuse(w, r, &refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest})
		return
	}
	key := prefix + r.PathValue("namespace") + "/" + sent.Name
	written, err := s.write(r.Context(), key, func(have *gear) (*gear, error) {
		if have != nil {
			return nil, &refusal{http.StatusConflict, metav1.StatusReasonAlreadyExists}
		}
		next := sent
		next.Namespace, next.UID, next.ResourceVersion = r.PathValue("namespace"), uuid.NewUUID(), ""
		next.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
		return &next, nil
	})
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer(w, http.StatusCreated, show(r, *written))
}

// one reads an object, or changes it.
func (s *server) one(w http.ResponseWriter, r *http.Request, change func(request, *gear) (*gear, error)) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, r, &refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest})
		return
	}
	sent := request{version: r.PathValue("version"), body: body}
	key := prefix + r.PathValue("namespace") + "/" + r.PathValue("name")
	if change == nil {
		change = func(_ request, have *gear) (*gear, error) { return have, errUnchanged }
	}
	var seen *gear
	written, err := s.write(r.Context(), key, func(have *gear) (*gear, error) {
		if have == nil {
			return nil, &refusal{http.StatusNotFound, metav1.StatusReasonNotFound}
		}
		copied := *have
		seen = have
		return change(sent, &copied)
	})
	if errors.Is(err, errUnchanged) {
		written, err = seen, nil
	}
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer(w, http.StatusOK, show(r, *written))
}

var errUnchanged = errors.New("the request only reads")

func replace(r request, have *gear) (*gear, error) {
	var sent gear
	if err := json.Unmarshal(r.body, &sent); err != nil {
		return nil, &refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest}
	}
	if sent.ResourceVersion != "" && sent.ResourceVersion != have.ResourceVersion {
		return nil, &refusal{http.StatusConflict, metav1.StatusReasonConflict}
	}
	have.Labels, have.Annotations, have.Spec = sent.Labels, sent.Annotations, sent.Spec
	return have, nil
}

// merge applies a JSON merge patch in the version of the request: what it leaves out stays.
func merge(r request, have *gear) (*gear, error) {
	next := have.as(r.version)
	if err := json.Unmarshal(r.body, &next); err != nil {
		return nil, &refusal{http.StatusBadRequest, metav1.StatusReasonBadRequest}
	}
	return &next, nil
}

func remove(request, *gear) (*gear, error) { return nil, nil } //nolint:nilnil // nothing stays

// request is what a change is made from.
type request struct {
	version string
	body    []byte
}

func wantsMetadata(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

// show returns the object as the client wants it.
func show(r *http.Request, g gear) any {
	if wantsMetadata(r) {
		return metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"},
			ObjectMeta: g.ObjectMeta,
		}
	}
	g = g.as(r.PathValue("version"))
	g.StoredBy = ""
	return g
}

// refusal is an answer that is not a success.
type refusal struct {
	code   int
	reason metav1.StatusReason
}

func (e *refusal) Error() string { return string(e.reason) }

func refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error(),
		Details: &metav1.StatusDetails{Group: group, Kind: resource, Name: r.PathValue("name")},
	}
	if refused := (*refusal)(nil); errors.As(err, &refused) {
		status.Code, status.Reason = int32(refused.code), refused.reason
	}
	answer(w, int(status.Code), status)
}

func answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // an error means that the client is gone
}
