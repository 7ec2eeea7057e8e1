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

func rule(group, resource string, verbs ...string) map[string]any {
	return map[string]any{"apiGroups": []string{group},
		"resources": []string{resource, resource + "/status"}, "verbs": verbs}
}

// allow gives a user (the role's name, if none is named) what the rules say, in the whole cluster.
func allow(t *testing.T, cluster *testbed.Cluster, name string, rules []any, user ...string) {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	do(t, cluster, http.MethodPost, rbac+"clusterroles",
		map[string]any{"metadata": map[string]any{"name": name}, "rules": rules})
	who := append(user, name)[0]
	do(t, cluster, http.MethodPost, rbac+"clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": who}},
	})
}

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

// allowReading lets a user read everything and write nothing.
func allowReading(t *testing.T, cluster *testbed.Cluster, user string) {
	t.Helper()
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	do(t, cluster, http.MethodPost, rbac+"clusterroles", map[string]any{
		"metadata": map[string]any{"name": user},
		"rules": []any{map[string]any{"apiGroups": []string{"*"}, "resources": []string{"*"},
			"verbs": []string{"get", "list"}}},
	})
	do(t, cluster, http.MethodPost, rbac+"clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": user},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
}
