// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

func TestTheServerPublishesWhatItStores(t *testing.T) {
	c := testbed.New(t, testbed.Options{})
	if err := c.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, c.Config(), listener) }()
	base := "http://" + listener.Addr().String()
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		raw, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(raw)
	}
	published := func() v1alpha1.StorageVersionStatus {
		t.Helper()
		code, raw, err := c.Servers[0].Do(t.Context(), http.MethodGet,
			"/apis/migration.k8s.io/v1alpha1/storageversions/demo.example.com.widgets", nil)
		var o v1alpha1.StorageVersion
		if err == nil && code == http.StatusOK {
			err = json.Unmarshal(raw, &o)
		}
		if err != nil || code != http.StatusOK && code != http.StatusNotFound {
			t.Fatalf("%d %v: %s", code, err, raw)
		}
		return o.Status
	}
	const widget = "/apis/demo.example.com/v1/widgets/one"
	wrote := func() bool {
		code, body := ask(http.MethodPut, widget, `{"apiVersion":"demo.example.com/v1","kind":"Widget"}`)
		if code == http.StatusOK {
			if common := published().CommonEncodingVersion; common == nil || *common != v2.String() ||
				!strings.Contains(body, v2.String()) {
				t.Fatalf("the write was stored as %s, while %+v was published", body, published())
			}
		}
		return code == http.StatusOK
	}
	for deadline := time.Now().Add(time.Minute); !wrote(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no write was taken within a minute")
		}
	}
	if code, body := ask(http.MethodGet, "/readyz", ""); code != http.StatusOK {
		t.Errorf("the server takes writes and is not ready: %d %s", code, body)
	}
	if code, body := ask(http.MethodGet, "/apis/demo.example.com/v1", ""); code != http.StatusOK ||
		!strings.Contains(body, storageversion.Hash(v2.WithKind("Widget"))) {
		t.Errorf("discovery shows %d %s", code, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := published(); len(s.StorageVersions) != 0 {
		t.Errorf("after the shutdown %+v is published", s)
	}
}
