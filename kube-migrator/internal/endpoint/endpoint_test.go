// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// selfSigned makes a certificate that is its own authority, for servers and clients, and its key, in PEM.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve starts a server that says hello, and returns its address.
func serve(t *testing.T, o Options) string {
	t.Helper()
	o.Address, o.MaxHeader, o.MaxConnections = "127.0.0.1:0", 4<<10, 8
	o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute
	o.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// hello asks a server whose certificate this authority has to have signed.
func hello(t *testing.T, address string, authority []byte, client ...tls.Certificate) (string, error) {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "gate.example.com",
		Certificates: client}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestANewCertificateIsServedWithoutARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	replace := func() []byte {
		certificate, key := selfSigned(t, "gate.example.com")
		write(t, filepath.Join(dir, "tls.key"), key)
		write(t, filepath.Join(dir, "tls.crt"), certificate)
		return certificate
	}
	first := replace()
	address := serve(t, Options{CertDir: dir})
	if text, err := hello(t, address, first); text != "hello" {
		t.Fatalf("%q, %v", text, err)
	}
	second := replace()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if text, err := hello(t, address, second); text == "hello" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("the second certificate is not served within a minute: %v", err)
		}
	}
	if text, err := hello(t, address, first); err == nil {
		t.Errorf("%q with the first certificate", text)
	}
}

func TestOnlyClientsOfTheAuthorityAreAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := selfSigned(t, "gate.example.com")
	write(t, filepath.Join(dir, "tls.key"), key)
	write(t, filepath.Join(dir, "tls.crt"), certificate)
	pair := func() (tls.Certificate, []byte) {
		certificate, key := selfSigned(t, "client")
		p, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		return p, certificate
	}
	known, authority := pair()
	stranger, other := pair()
	file := filepath.Join(dir, "clients.crt")
	write(t, file, authority)
	address := serve(t, Options{CertDir: dir, ClientCA: file})
	for name, c := range map[string]struct {
		clients []tls.Certificate
		want    string
	}{"no certificate": {}, "a stranger": {clients: []tls.Certificate{stranger}},
		"the client": {clients: []tls.Certificate{known}, want: "hello"}} {
		if text, err := hello(t, address, certificate, c.clients...); text != c.want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	write(t, file, other)
	if text, err := hello(t, address, certificate, stranger); text != "hello" {
		t.Errorf("after its authority has replaced the first one: %q, %v", text, err)
	}
	write(t, file, []byte("no certificate"))
	if text, err := hello(t, address, certificate, stranger); err == nil {
		t.Errorf("%q without an authority", text)
	}
}

func TestMissingFilesAreErrorsAtTheStart(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), Options{Address: "127.0.0.1:0", CertDir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want the missing certificate", err)
	}
	_, err = New(t.Context(), Options{Address: "127.0.0.1:0", ClientCA: filepath.Join(t.TempDir(), "ca.crt")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, want the missing authority", err)
	}
	empty := filepath.Join(t.TempDir(), "ca.crt")
	write(t, empty, nil)
	_, err = New(t.Context(), Options{Address: "127.0.0.1:0", ClientCA: empty})
	if err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("%v, want that the file is empty", err)
	}
}
