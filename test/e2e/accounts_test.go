// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// asServiceAccount writes a kubeconfig of an installed ServiceAccount, so that its generated permissions are those that
// count.
func asServiceAccount(t *testing.T, cluster *testbed.Cluster, name string) string {
	t.Helper()
	var token authenticationv1.TokenRequest
	decode(t, do(t, cluster, http.MethodPost, "/api/v1/namespaces/"+installation+"/serviceaccounts/"+name+"/token",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
			"spec": map[string]any{}}), &token)
	admin, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Status.Token
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
