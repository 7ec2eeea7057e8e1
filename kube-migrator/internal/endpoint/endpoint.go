// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package endpoint serves HTTP over TLS to clients that it does not know.
//
// Anyone who reaches the port can connect. This package bounds what that costs: the size of headers, the number of
// connections, and the time that a request, its answer and an idle connection may take. It owns the certificates, which
// it reads again when they change. It does not know what it serves: the handler authorizes requests and bounds their
// bodies.
package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

const (
	idleTimeout = time.Minute
	// shutdownTimeout bounds how long answers may take to finish after the end.
	shutdownTimeout = 2 * time.Second
)

// Options say what to serve, and where.
type Options struct {
	// Address is where to listen, such as ":8443".
	Address string
	// CertDir is a folder with the certificate tls.crt and its key tls.key, which are read again when they change.
	// Empty, the default: the server creates a certificate of its own, which clients cannot verify.
	CertDir string
	// ClientCA is a file with the certificates of the authorities of which one must have signed a client's certificate.
	// It is read for each connection. Empty, the default: clients need no certificate.
	ClientCA string
	// Handler answers requests.
	Handler http.Handler
	// MaxHeader bounds all headers of a request together, in bytes. net/http reads 4 KiB more before it answers 431.
	MaxHeader int
	// MaxConnections bounds the concurrent connections. Further ones wait to be accepted.
	MaxConnections int
	// ReadTimeout bounds how long a request may take to arrive, and WriteTimeout how long until the end of its answer.
	ReadTimeout, WriteTimeout time.Duration
	// Logger receives errors of connections, at level Debug because anyone can cause them; nil discards them.
	Logger *slog.Logger
}

// Server serves until its context ends.
type Server struct {
	listener net.Listener
	http     *http.Server
	watcher  *certwatcher.CertWatcher // nil without CertDir
}

// New listens, and serves nothing before Start. Close or Start ends it.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{}
	// HTTP/2 is not offered, because one connection would carry any number of concurrent requests.
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}}
	if err := s.certify(config, o.CertDir); err != nil {
		return nil, err
	}
	if o.ClientCA != "" {
		if _, err := authorities(o.ClientCA); err != nil {
			return nil, err
		}
		config.GetConfigForClient = requireClientCertificate(config.Clone(), o.ClientCA)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.listener = tls.NewListener(netutil.LimitListener(listener, o.MaxConnections), config)
	s.http = &http.Server{
		Handler: o.Handler, MaxHeaderBytes: o.MaxHeader, ReadHeaderTimeout: o.ReadTimeout, ReadTimeout: o.ReadTimeout,
		WriteTimeout: o.WriteTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// certify adds the certificate of a folder to the configuration, or one of its own.
func (s *Server) certify(config *tls.Config, dir string) error {
	if dir == "" {
		certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		if err != nil {
			return fmt.Errorf("make a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		config.Certificates = []tls.Certificate{pair}
		return err
	}
	watcher, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	s.watcher, config.GetCertificate = watcher, watcher.GetCertificate
	return nil
}

// requireClientCertificate returns the configuration of each connection. If the file cannot be read, the connection
// fails.
func requireClientCertificate(config *tls.Config, file string) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return func(*tls.ClientHelloInfo) (*tls.Config, error) {
		roots, err := authorities(file)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ClientCAs = roots
		return own, nil
	}
}

func authorities(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the authorities of clients: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("read the authorities of clients: %s contains no certificate", file)
	}
	return roots, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	watched := make(chan error, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if s.watcher != nil {
		go func() { watched <- s.watcher.Start(watching) }()
	} else {
		watched <- nil
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if s.http.Shutdown(ending) != nil {
		_ = s.http.Close() // cuts off connections that are still open
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	stop()
	return <-watched
}

// Close ends a server that was never started.
func (s *Server) Close() error { return s.listener.Close() }
