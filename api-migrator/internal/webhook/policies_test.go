// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
)

func TestAdmissionPoliciesGoOnCheckingRequestsInTheNewVersion(t *testing.T) {
	t.Parallel()
	const rules = "\n    resourceRules:\n    - apiGroups: [cache.example.com]\n      apiVersions: [%s]\n      " +
		"operations: [CREATE]\n      resources: [memcacheds]\n"
	policy := func(match, versions string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nspec:\n  matchConstraints:" +
			match + fmt.Sprintf(rules, versions) + "  validations:\n  - expression: object.spec.size < 10\n"
	}
	files := map[string]string{
		"config/policy/default.yaml": policy("", "v1"), "config/policy/every.yaml": policy("", "'*'"),
		"config/policy/exact.yaml":       policy("\n    matchPolicy: Exact", "v1"),
		"chart/templates/policy.yaml":    policy("\n    matchPolicy: {{ .Values.policy }}", "v1"),
		"config/policy/other-group.yaml": strings.Replace(policy("", "v1"), "cache.example", "other.example", 1),
	}
	all, after := changed(t, hooked(t, files), decided.Memcached())
	wantFinding(t, all.Report, "config/policy/default.yaml:6", "matchPolicy Equivalent, the default, has the API server convert")
	wantFinding(t, all.Report, "config/policy/exact.yaml:7", "matchPolicy becomes Equivalent: with Exact, requests in v1beta2")
	if !slices.ContainsFunc(all.Blockers, isAt("chart/templates/policy.yaml:7", "Set matchPolicy Equivalent")) ||
		len(all.Blockers) != 1 {
		t.Errorf("blockers: %v", all.Blockers)
	}
	for name, want := range files {
		want = strings.Replace(want, "Exact", "Equivalent", 1)
		if diff := cmp.Diff(want, after[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, one := range all.Findings {
		if strings.HasPrefix(one.Where, "config/policy/every.yaml") || strings.HasPrefix(one.Where, "config/policy/other") {
			t.Errorf("reported, but right: %s", one)
		}
	}
	asked := decided.Memcached()
	asked.To = "storage.example.com/v1"
	all, _ = changed(t, hooked(t, files), asked)
	wantFinding(t, all.Report, "config/policy/exact.yaml:7", "the new resource needs a rule of its own")
}
