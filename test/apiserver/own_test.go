// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// serve starts a server with a certificate for a name, and returns its address and the authority.
func serve(t *testing.T, name string, handler http.HandlerFunc) (address string, ca []byte) {
	t.Helper()
	certificate, ca, err := testbed.ServingCertificate(name)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), ca
}

func TestCredentialsGoOnlyToAServerOfTheCluster(t *testing.T) {
	var token atomic.Value
	receive := func(w http.ResponseWriter, r *http.Request) { token.Store(r.Header.Get("Authorization")) }
	cluster, ca := serve(t, apiserver.ServerName, receive)
	impostor, _ := serve(t, apiserver.ServerName, receive)
	otherName, nameCA := serve(t, "metrics.kube-system.svc", receive)
	redirecting, redirectCA := serve(t, apiserver.ServerName, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+cluster+"/stolen", http.StatusTemporaryRedirect)
	})
	for name, test := range map[string]struct {
		address string
		ca      []byte
		change  func(*rest.Config)
		want    bool
	}{
		"a server of the cluster":                   {address: cluster, ca: ca, want: true},
		"a server of another authority":             {address: impostor, ca: ca},
		"a certificate for another name":            {address: otherName, ca: nameCA},
		"a server that sends the client elsewhere":  {address: redirecting, ca: append(redirectCA, ca...)},
		"no authority in the config":                {address: cluster},
		"a config that skips verification":          {address: cluster, change: func(c *rest.Config) { c.Insecure = true }},
		"a config for an address that is not https": {address: cluster, ca: ca, change: func(c *rest.Config) { c.Host = "http://localhost" }},
	} {
		t.Run(name, func(t *testing.T) {
			token.Store("")
			config := &rest.Config{Host: "https://balancer.example.com/clusters/c1", BearerToken: "secret",
				TLSClientConfig: rest.TLSClientConfig{CAData: test.ca, ServerName: "balancer.example.com"}}
			if test.change != nil {
				test.change(config)
			}
			client, err := apiserver.NewClientAt(config, test.address)
			if err == nil {
				err = client.Patch("").AbsPath("/api/v1/x").Body([]byte("{}")).Do(t.Context()).Error()
			}
			if got := token.Load() == "Bearer secret"; got != test.want || (err == nil) != test.want {
				t.Errorf("credentials received: %t, error %v, want them received: %t", got, err, test.want)
			}
		})
	}
}
