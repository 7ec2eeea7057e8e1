// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRolesOfAKindThatGetsAnotherGroupGrantBoth(t *testing.T) {
	t.Parallel()
	role := func(rules ...string) string {
		return "kind: ClusterRole\nrules:\n" + strings.Join(rules, "")
	}
	rule := func(group, more string) string {
		return "- apiGroups:\n  - " + group + "\n" + more + "  resources:\n  - memcacheds\n  verbs:\n  - get\n"
	}
	const named = "  resourceNames:\n  - one\n"
	before, after := rule("cache.example.com", ""), rule("cache.example.com", "")+rule("storage.example.com", "")
	files := map[string]string{
		"config/rbac/plain.yaml":       role(before),
		"config/rbac/left.yaml":        role(before),
		"config/rbac/every.yaml":       role(strings.Replace(before, "memcacheds", `"*"`, 1)),
		"config/rbac/json.json":        `{"kind":"Role","rules":[{"apiGroups":["cache.example.com"],"resources":["memcacheds"],"verbs":["get"]}]}`,
		"chart/templates/_helpers.tpl": "{{- define \"role\" }}\n" + role(before) + "{{- end }}\n",
		// The new resource is granted by its name alone.
		"config/rbac/named.yaml": role(before, rule("storage.example.com", named)),
	}
	want := map[string]string{
		"config/rbac/plain.yaml": role(after), "config/rbac/left.yaml": files["config/rbac/left.yaml"],
		"config/rbac/every.yaml": files["config/rbac/every.yaml"], "config/rbac/json.json": files["config/rbac/json.json"],
		"chart/templates/_helpers.tpl": strings.Replace(files["chart/templates/_helpers.tpl"], before, after, 1),
		"config/rbac/named.yaml":       role(after, rule("storage.example.com", named)),
	}
	asked := memcachedRequest
	asked.To, asked.Leave = "storage.example.com/v1", []string{"config/rbac/left.yaml"}
	all, got := edited(t, hooked(t, files), asked)
	for name, text := range want {
		if diff := cmp.Diff(text, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	wantFinding(t, all, "config/rbac/every.yaml:3", "may grant access to memcacheds.cache.example.com by *: add a rule for "+
		"memcacheds.storage.example.com")
	wantFinding(t, all, "config/rbac/json.json:1", "in a way that is not edited: add the same rule for memcacheds.storage.example.com")
	wantFinding(t, all, "config/rbac/left.yaml", "as you have asked (--leave): repeat its rules for the old resource")
}
