// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command apiserver is a whole aggregated API server on net/http: discovery, storage, readiness and shutdown, and a
// Publisher that says in which version it stores its Widgets. Its account needs the permissions that package
// storageversion lists.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

// The server of widgets serves v1 and stores v2, as it would after an upgrade.
var (
	v1 = schema.GroupVersion{Group: "demo.example.com", Version: "v1"}
	v2 = schema.GroupVersion{Group: "demo.example.com", Version: "v2"}
)

// store stands for etcd: the objects by their path, as they are encoded.
type store struct {
	mu      sync.Mutex
	objects map[string][]byte
}

// put stores an object in the encoding version, unless the request was cancelled: its entry may no longer stand then.
func (s *store) put(w http.ResponseWriter, r *http.Request) {
	var object map[string]any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	object["apiVersion"] = v2.String()
	encoded, err := json.Marshal(object)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Context().Err() != nil {
		return
	}
	s.objects[r.PathValue("name")] = encoded
	_, _ = w.Write(encoded) // an error means that the client is gone
}

func (s *store) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(object)
}

// discovery shows the hash of the version in which widgets are stored.
func discovery(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: v1.String(),
		APIResources: []metav1.APIResource{{
			Name: "widgets", SingularName: "widget", Kind: "Widget", Verbs: metav1.Verbs{"get", "update"},
			StorageVersionHash: storageversion.Hash(v2.WithKind("Widget")),
		}},
	})
}

// serve runs the API server until the context ends.
func serve(ctx context.Context, config *rest.Config, listener net.Listener) error {
	publisher, err := storageversion.NewPublisher(storageversion.Options{
		Config:    config,
		Component: "widgets-apiserver",
		Resources: []storageversion.Resource{{
			GroupResource:     schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
			EncodingVersion:   v2,
			DecodableVersions: []schema.GroupVersion{v1, v2},
			ServedVersions:    []schema.GroupVersion{v1},
		}},
	})
	if err != nil {
		return err
	}
	widgets := &store{objects: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/demo.example.com/v1", discovery)
	mux.HandleFunc("GET /apis/demo.example.com/v1/widgets/{name}", widgets.get)
	mux.HandleFunc("PUT /apis/demo.example.com/v1/widgets/{name}", widgets.put)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := publisher.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: storageversion.Barrier(publisher, mux), ReadHeaderTimeout: 10 * time.Second}

	// The publisher outlives the HTTP server: it withdraws when no write can be in flight any more.
	publishing, withdraw := context.WithCancel(context.WithoutCancel(ctx))
	defer withdraw()
	published := make(chan error, 1)
	go func() { published <- publisher.Run(publishing) }()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	select {
	case <-ctx.Done():
	case err = <-served:
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err = errors.Join(err, server.Shutdown(ending))
	withdraw()
	return errors.Join(err, <-published)
}

func main() {
	listen := flag.String("listen", ":8080", "where to serve; a server that is reached through an APIService serves TLS")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster; default: as its pods do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if err := serve(ctx, config, listener); err != nil {
		log.Fatal(err)
	}
}
