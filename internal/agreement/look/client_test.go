// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// impostor is a TLS server that counts the requests that it gets.
func impostor(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, ca []byte, requests *int) {
	requests = new(int)
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		if handler != nil {
			handler(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), requests
}

func TestACertificateForAnotherNameGetsNoRequest(t *testing.T) {
	server, ca, requests := impostor(t, nil) // signed by the authority, but not for kubernetes.default.svc
	c, err := newClient(&rest.Config{Host: server.URL, BearerToken: "secret",
		TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.channelTo(server.Listener.Addr().String(), time.Second).get(t.Context(),
		"/version"); err == nil || *requests != 0 {
		t.Errorf("an impostor got %d requests, error %v", *requests, err)
	}
	if _, _, err := c.get(t.Context(), "/version"); err != nil || *requests != 1 {
		t.Errorf("the address in the kubeconfig got %d requests, error %v", *requests, err)
	}
}

func TestOwnAddressesAreNotAskedWhereNothingIsVerified(t *testing.T) {
	server, ca, requests := impostor(t, nil)
	plain := "http://" + server.Listener.Addr().String()
	for why, config := range map[string]*rest.Config{
		"the kubeconfig skips the verification of certificates": {Host: server.URL,
			TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
		"the kubeconfig names no certificate authority of the cluster": {Host: server.URL},
		"the kubeconfig's address is not https": {Host: plain,
			TLSClientConfig: rest.TLSClientConfig{CAData: ca}},
		"the client's transport was made by hand": {Host: server.URL, Transport: http.DefaultTransport},
	} {
		t.Run(why, func(t *testing.T) {
			c, err := newClient(config, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if c.unverified != why {
				t.Errorf("unverified = %q", c.unverified)
			}
			if _, _, err := c.channelTo(server.Listener.Addr().String(), time.Second).get(t.Context(),
				"/version"); err == nil || *requests != 0 {
				t.Errorf("it got %d requests, error %v", *requests, err)
			}
		})
	}
	c, err := newClient(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, time.Second)
	if err != nil || c.unverified != "" {
		t.Errorf("with an authority: %v, %v", c.unverified, err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	other, _, requests := impostor(t, nil)
	server, ca, _ := impostor(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusFound)
	})
	c, err := newClient(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for name, get := range map[string]func() error{
		"kept":  func() error { _, _, err := c.get(t.Context(), "/"); return err },
		"fresh": func() error { _, err := c.getFresh(t.Context(), "/"); return err },
	} {
		if err := get(); statusOf(err) != http.StatusFound || *requests != 0 {
			t.Errorf("%s: the other host got %d requests, error %v", name, *requests, err)
		}
	}
}

func TestFreshConnections(t *testing.T) {
	seen := map[string]bool{}
	server, ca, _ := impostor(t, func(w http.ResponseWriter, r *http.Request) { seen[r.RemoteAddr] = true })
	c, err := newClient(&rest.Config{Host: server.URL + "/behind/a/path",
		TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := c.getFresh(t.Context(), "/version"); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("3 requests came on %d connections", len(seen))
	}
}
