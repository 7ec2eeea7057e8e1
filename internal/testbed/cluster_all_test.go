// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package testbed

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClusterServesItsUsersAndSurvivesCrashes(t *testing.T) {
	t.Parallel()
	c := New(t, Options{Users: []User{{Name: "jane", Groups: []string{"viewers"}}}})
	ctx := t.Context()
	server := c.Servers[0]
	if err := list(t, c.Config(), namespaces); err != nil {
		t.Errorf("the administrator: %v", err)
	}
	if err := list(t, c.ConfigAs("jane"), namespaces); err == nil ||
		!strings.Contains(err.Error(), `User "jane" cannot list resource "namespaces"`) {
		t.Errorf("a user without rights gets %v, want to be recognized and forbidden", err)
	}

	kubectl, err := Binary(ctx, Newest, "kubectl", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := c.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Command(ctx, kubectl, "--kubeconfig", kubeconfig, "create", "namespace", "survivor", "-o",
		"name").CombinedOutput()
	if err != nil || string(out) != "namespace/survivor\n" {
		t.Fatalf("kubectl says %q (%v)", out, err)
	}

	url, pid := server.URL(), server.PID()
	server.Kill()
	if server.Running() {
		t.Error("the server runs after Kill")
	}
	if err := list(t, c.Config(), namespaces); err == nil {
		t.Error("a killed server answers")
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if server.URL() != url || server.PID() == pid {
		t.Errorf("after the restart: %s with process %d, before: %s with process %d", server.URL(),
			server.PID(), url, pid)
	}
	c.Etcd.Kill()
	if err := c.Etcd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Raw(ctx, "/registry/namespaces/survivor"); err != nil {
		t.Errorf("etcd after a crash: %v", err)
	}
	if err := server.RestartWith(
		ctx, ServerOptions{Flags: []string{"--storage-media-type=application/json"}},
	); err != nil {
		t.Fatal(err)
	}
	if status, answer, err := server.Do(ctx, http.MethodPatch, "/api/v1/namespaces/survivor",
		[]byte(`{}`)); err != nil || status != http.StatusOK {
		t.Fatalf("patch: %d %s (%v)", status, answer, err)
	}
	if raw, err := c.Raw(ctx, "/registry/namespaces/survivor"); err != nil || !strings.HasPrefix(string(raw), "{") {
		t.Errorf("after a restart with another flag etcd holds %.40q (%v), want JSON", raw, err)
	}
	if usage, err := server.Usage(); err != nil || usage.CPU <= 0 || usage.PeakRSSBytes < 10<<20 {
		t.Errorf("usage is %+v (%v)", usage, err)
	}
	c.Etcd.Kill() // CheckInvariants, which runs when this test has ended, has to cope
}

func TestSecretsAreEncryptedWithTheFirstKey(t *testing.T) {
	t.Parallel()
	secrets := []string{"secrets"}
	c := New(t, Options{EncryptionConfig: EncryptionConfig(secrets, "key1")})
	ctx := t.Context()
	create := func(name string) {
		t.Helper()
		body := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"stringData":{"a":"b"}}`
		if _, err := c.request(ctx, http.MethodPost, "/api/v1/namespaces/default/secrets", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	create("first")
	if err := c.SetEncryptionConfig(EncryptionConfig(secrets, "key2", "key1")); err != nil {
		t.Fatal(err)
	}
	if err := c.Servers[0].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	create("second")
	stored, err := c.StoredVersions(ctx, "/registry/secrets/")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"enc:aescbc:v1:key1": 1, "enc:aescbc:v1:key2": 1}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("stored versions (-want +got):\n%s", diff)
	}
}
