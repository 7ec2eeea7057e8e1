// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Command plain is an aggregated API server on net/http alone, for tests: it serves gears.parts.example.com as v1 and
// v2, stores them in an etcd, and publishes in which version with package storageversion. It decides by its flags
// alone what it stores and shows. It knows no users: every client that reaches it may do everything.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/storageversion"
)

const (
	group    = "parts.example.com"
	kind     = "Gear"
	resource = "gears"
	prefix   = "/registry/" + group + "/" + resource + "/"
)

type flags struct {
	listen, certificate, key, etcd, kubeconfig string
	id, encoding, decodable, hash              string
	publish                                    bool
	lease, serveAfter, writeDelay              time.Duration
}

func main() {
	var f flags
	flag.StringVar(&f.listen, "listen", "", "host:port to serve at")
	flag.StringVar(&f.certificate, "certificate", "", "file with the serving certificate")
	flag.StringVar(&f.key, "key", "", "file with its key")
	flag.StringVar(&f.etcd, "etcd", "", "URL of etcd")
	flag.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig for the cluster")
	flag.StringVar(&f.id, "id", "", "name of this replica, which it leaves in what it stores")
	flag.StringVar(&f.encoding, "encoding", "v1", "version to store: v1 or v2")
	flag.StringVar(&f.decodable, "decodable", "v1,v2", "versions to decode and to serve")
	flag.StringVar(&f.hash, "hash", "kubernetes", "what discovery shows: kubernetes, opaque or none")
	flag.BoolVar(&f.publish, "publish", true, "publish what is stored, and refuse writes until that is done")
	flag.DurationVar(&f.lease, "lease-duration", 6*time.Second, "duration of the identity Lease")
	flag.DurationVar(&f.serveAfter, "serve-after", 0, "how long to wait between publishing and listening")
	flag.DurationVar(&f.writeDelay, "write-delay", 0, "how long a write waits before it is stored")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the process ends
	}
}

// wait reports whether the time has passed; false: the context has ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (f *flags) run(ctx context.Context) error {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{f.etcd}})
	if err != nil {
		return err
	}
	defer etcd.Close()
	s := &server{
		etcd: etcd, id: f.id, encoding: f.encoding, decodable: strings.Split(f.decodable, ","), hash: f.hash,
		delay: f.writeDelay,
	}
	handler := s.handler(func(*http.Request) error { return nil })
	if !f.publish {
		return f.serve(ctx, handler)
	}
	publisher, err := f.publisher()
	if err != nil {
		return err
	}
	handler = storageversion.Barrier(publisher, s.handler(publisher.Check))
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	published := make(chan error, 1)
	go func() { published <- publisher.Run(publishing) }()
	if f.serveAfter > 0 {
		for publisher.Check(nil) != nil && wait(ctx, 10*time.Millisecond) {
		}
		wait(ctx, f.serveAfter)
	}
	err = f.serve(ctx, handler)
	stop()
	return errors.Join(err, <-published)
}

func (f *flags) publisher() (*storageversion.Publisher, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, err
	}
	var decodable []schema.GroupVersion
	for version := range strings.SplitSeq(f.decodable, ",") {
		decodable = append(decodable, schema.GroupVersion{Group: group, Version: version})
	}
	return storageversion.NewPublisher(storageversion.Options{
		Config: config, Component: "plain", ID: f.id, LeaseDuration: f.lease, DrainTimeout: 5 * time.Second,
		Resources: []storageversion.Resource{{
			GroupResource:     schema.GroupResource{Group: group, Resource: resource},
			EncodingVersion:   schema.GroupVersion{Group: group, Version: f.encoding},
			DecodableVersions: decodable, ServedVersions: decodable,
		}},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// serve serves until the context ends, and then finishes the requests that it has.
func (f *flags) serve(ctx context.Context, handler http.Handler) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, f.certificate, f.key) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(bounded)
}
