// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"bytes"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestSecretsAreStoredUnderTheNewKeyAfterARotation(t *testing.T) {
	t.Parallel()
	const n, prefix = 60, "/registry/secrets/"
	config := func(keys ...string) string { return testbed.EncryptionConfig([]string{"secrets"}, keys...) }
	cluster := testbed.New(t, testbed.Options{EncryptionConfig: config("key1")})
	create(t, cluster, "/api/v1/namespaces/default/secrets", "v1", "Secret", "secret", n,
		map[string]any{"stringData": map[string]string{"password": "correct horse battery staple"}})
	wantStored(t, cluster, prefix, map[string]int{"enc:aescbc:v1:key1": n})
	if err := cluster.SetEncryptionConfig(config("key2", "key1")); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Servers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	user := newCLI(t, cluster)

	got := user.migrate(0, "secrets", "--reason=key rotation")

	wantCounts(t, migrate.Counts{Rewritten: n}, got)
	err := cluster.EachRaw(t.Context(), prefix, func(key string, value []byte, _ int64) {
		if !bytes.HasPrefix(value, []byte("k8s:enc:aescbc:v1:key2:")) {
			t.Errorf("%s begins with %.24q, want the new key's prefix", key, value)
		}
	})
	if err != nil {
		t.Fatal(err)
	}

	before := revisions(t, cluster, prefix)
	got = user.migrate(0, "secrets")
	wantUnmoved(t, cluster, prefix, before)
	wantCounts(t, migrate.Counts{Current: n}, got)

	// The old key can go: a server that never had it reads everything.
	if err := cluster.SetEncryptionConfig(config("key2")); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Servers[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct{ Data map[string][]byte }
	}
	get(t, cluster, "/api/v1/secrets", &list)
	if len(list.Items) != n || string(list.Items[0].Data["password"]) != "correct horse battery staple" {
		t.Errorf("%d secrets can be read without the old key, want %d", len(list.Items), n)
	}
}
