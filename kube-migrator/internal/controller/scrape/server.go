// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package scrape serves metrics over TLS to scrapers that the API server authenticates and allows to get the path.
//
// Anyone who reaches the port can send requests, so everything that strangers can cost is bounded: connections by package
// endpoint, and here the number of concurrent questions to the API server, the time that each takes, and the number of
// remembered answers.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/endpoint"
)

// Path is where metrics are served. Every other path is not found.
const Path = "/metrics"

const (
	// maxToken bounds a bearer token, in bytes. Tokens of ServiceAccounts have about 1 KiB, those of large identity
	// providers up to 8 KiB.
	maxToken = 16 << 10
	// maxHeader bounds all headers of a request together. net/http reads 4 KiB more before it answers 431.
	maxHeader = maxToken + 4<<10
	// maxConnections bounds the concurrent connections. Further ones wait to be accepted.
	maxConnections = 64
	// maxGathers bounds how many answers are assembled at the same time.
	maxGathers = 4

	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
)

// Options say what to serve, and where.
type Options struct {
	// Address is where to listen, such as ":8443".
	Address string
	// CertDir is a folder with the certificate tls.crt and its key tls.key, which are read again when they change.
	// Empty, the default: the server creates a certificate of its own, which scrapers cannot verify.
	CertDir string
	// Config is the configuration for the cluster whose API server authenticates and authorizes scrapers.
	Config *rest.Config
	// Metrics are the metrics to serve.
	Metrics prometheus.Gatherer
	// Logger receives errors that scrapers are not shown; nil discards them.
	Logger *slog.Logger
}

// Server serves metrics. It implements manager.Runnable and manager.LeaderElectionRunnable of controller-runtime.
type Server struct{ *endpoint.Server }

// New listens, and serves nothing before Start. Close or Start ends it.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	reviews, err := newReviews(o.Config)
	if err != nil {
		return nil, fmt.Errorf("set up reviews: %w", err)
	}
	metrics := promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxGathers})
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, authorized(reviews, o.Logger, metrics))
	server, err := endpoint.New(ctx, endpoint.Options{
		Address: o.Address, CertDir: o.CertDir, Handler: mux, MaxHeader: maxHeader, MaxConnections: maxConnections,
		ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	return &Server{server}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves its metrics.
func (s *Server) NeedLeaderElection() bool { return false }

// authorized forwards requests with the bearer token of a user who may get the path.
func authorized(reviews *reviews, log *slog.Logger, next http.Handler) http.Handler {
	refuse := func(w http.ResponseWriter, code int, text string) {
		w.Header().Set("Connection", "close") // strangers must not keep one of the few connections
		http.Error(w, text, code)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case !ok || token == "":
			refuse(w, http.StatusUnauthorized, "Unauthorized: send a bearer token")
			return
		case len(token) > maxToken:
			refuse(w, http.StatusRequestHeaderFieldsTooLarge, "The bearer token is too large")
			return
		}
		code, err := reviews.ask(r.Context(), token)
		switch {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", "5")
			refuse(w, http.StatusServiceUnavailable, "Too many concurrent requests to authenticate")
		case r.Context().Err() != nil: // the client no longer waits for the answer
		case err != nil:
			log.Error("Cannot review access to the metrics", "error", err)
			refuse(w, http.StatusInternalServerError, "The API server could not review the access")
		case code != http.StatusOK:
			refuse(w, code, http.StatusText(code))
		default:
			next.ServeHTTP(w, r)
		}
	})
}
