// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package tlstest is for tests: it starts servers with certificates for names that httptest has none for.
package tlstest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/util/cert"
)

// Server is a server with a certificate for a name.
type Server struct {
	*httptest.Server
	// CA is the authority of the certificate, as PEM.
	CA []byte
}

// New starts a server that ends with the test.
func New(t *testing.T, name string, handler http.Handler) Server {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	s := Server{Server: httptest.NewUnstartedServer(handler), CA: certificate}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// Address returns host:port.
func (s Server) Address() string { return s.Listener.Addr().String() }
