// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	rolesPath   = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	rolesPrefix = "/registry/roles/default/"
	oldRoles    = "rbac.authorization.k8s.io/v1beta1"
	newRoles    = "rbac.authorization.k8s.io/v1"
	rolesName   = "roles.rbac.authorization.k8s.io"
	deniedRole  = "denied\u00a0role"
	deniedText  = `default/"denied\u00a0role": Rejected: `
)

// oddRoles are names that a namespace admin may give to a Role: the API server refuses only what is not a path segment.
// The continue token after a page that ends with the last one has 160 KB.
var oddRoles = []string{
	deniedRole, "escape\x1b[2J", "line\nfeed", "zero\x00", "bidi\u202eelor", "what?a#name;of a role+", "system:role",
	"...", `quote"back\`, "ünïcode", strings.Repeat("x", 1100), "long" + strings.Repeat("\x01", 20_000),
}

// notUTF8 is a name that only a request in protobuf can give.
const notUTF8 = "bytes\xff"

// rolesOfAnyNameAreMigrated creates Roles in the namespace default, stores them in an old version, and migrates them by
// hand and by the controller, while a policy denies one. etcd has none there before.
func rolesOfAnyNameAreMigrated(t *testing.T, c *controlled) {
	for _, name := range oddRoles {
		do(t, c.cluster, http.MethodPost, rolesPath, map[string]any{"metadata": map[string]any{"name": name},
			"rules": []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"get"}}}})
	}
	names := append([]string{notUTF8}, oddRoles...)
	n := len(names)
	storeOldRoles(t, c.cluster, names)
	before := snapshot(t, c.cluster, rolesPrefix)
	do(t, c.cluster, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", map[string]any{
		"metadata": map[string]any{"name": "no-role"},
		"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []string{"rbac.authorization.k8s.io"}, "apiVersions": []string{"*"},
				"operations": []string{"UPDATE"}, "resources": []string{"roles"},
			}}},
			"validations": []any{map[string]any{"expression": "object.metadata.name != '" + deniedRole + "'",
				"message": "this role is frozen"}},
		},
	})
	const binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	do(t, c.cluster, http.MethodPost, binding, map[string]any{"metadata": map[string]any{"name": "no-role"},
		"spec": map[string]any{"policyName": "no-role", "validationActions": []string{"Deny"}}})
	eventually(t, "the policy is in force", func() bool {
		status, _, err := c.cluster.Servers[0].Do(t.Context(), http.MethodPatch,
			rolesPath+"/"+url.PathEscape(deniedRole)+"?dryRun=All", []byte(`{}`))
		return err == nil && status == http.StatusUnprocessableEntity
	})

	out := newCLI(t, c.cluster).run(4, "migrate", "roles", "--settle-time=1s", "--page-size=1")
	if !strings.Contains(out.stdout, deniedText) || !strings.Contains(out.stdout, "this role is frozen") {
		t.Errorf("it does not say %q:\n%s", deniedText, out.stdout)
	}
	if all := out.stdout + out.stderr; strings.ContainsFunc(all, func(r rune) bool {
		return r != '\n' && !unicode.IsPrint(r)
	}) {
		t.Errorf("something reaches the terminal that is not printed: %q", all)
	}
	wantStored(t, c.cluster, rolesPrefix, map[string]int{oldRoles: 1, newRoles: n - 1})
	wantPreserved(t, c.cluster, rolesPrefix, before)

	storeOldRoles(t, c.cluster, names)
	c.ask(v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{
		Group: "rbac.authorization.k8s.io", Resource: "roles"}})
	m := c.until(rolesName, "failed", inPhase(v1alpha1.PhaseFailed))
	if f := m.Status.Failures; len(f) != 1 || f[0].Namespace != "default" || f[0].Name != deniedRole ||
		!strings.Contains(m.Status.Summary, deniedText) {
		t.Errorf("summary %q, failures %+v, want one: %q in default", m.Status.Summary, f, deniedRole)
	}
	wantStored(t, c.cluster, rolesPrefix, map[string]int{oldRoles: 1, newRoles: n - 1})
	do(t, c.cluster, http.MethodDelete, binding+"/no-role", nil)
	c.until(rolesName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	wantStored(t, c.cluster, rolesPrefix, map[string]int{newRoles: n})
	wantPreserved(t, c.cluster, rolesPrefix, before)
}

// storeOldRoles writes Roles into etcd as an API server of another release would have. One that is missing is written as
// a copy of the first one that is not.
func storeOldRoles(t *testing.T, cluster *testbed.Cluster, names []string) {
	t.Helper()
	const magic = "k8s\x00"
	for _, name := range names {
		raw, err := cluster.Raw(t.Context(), rolesPrefix+name)
		missing := err != nil
		if missing {
			raw, err = cluster.Raw(t.Context(), rolesPrefix+oddRoles[0])
		}
		var envelope runtime.Unknown
		if err == nil {
			err = envelope.Unmarshal(bytes.TrimPrefix(raw, []byte(magic)))
		}
		if err != nil {
			t.Fatal(err)
		}
		if missing {
			var role rbacv1.Role
			if err := role.Unmarshal(envelope.Raw); err != nil {
				t.Fatal(err)
			}
			role.Name, role.UID = name, "11111111-2222-3333-4444-555555555555"
			if envelope.Raw, err = role.Marshal(); err != nil {
				t.Fatal(err)
			}
		}
		envelope.APIVersion = oldRoles // has the same fields
		if raw, err = envelope.Marshal(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.PutRaw(t.Context(), rolesPrefix+name, append([]byte(magic), raw...)); err != nil {
			t.Fatal(err)
		}
	}
}
