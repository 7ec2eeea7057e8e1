// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
)

// Webhooks stand in more places, and are written in more ways, than kubebuilder writes them.
func TestWebhooksFollowWhereverTheyAreDefined(t *testing.T) {
	t.Parallel()
	const oldPath, newPath = "/mutate-cache-example-com-v1-memcached", "/mutate-cache-example-com-v1beta2-memcached"
	rule := func(versions string) string {
		return "rules:\n    - apiGroups: [cache.example.com]\n      apiVersions: [" + versions + "]\n      resources: [memcacheds]\n"
	}
	tests := map[string]struct{ file, before, after string }{
		"a marker of admissionregistration.k8s.io/v1beta1, whose matchPolicy is Exact if it is not said": {
			"internal/webhook/markers.go",
			"package webhook\n\n// +kubebuilder:webhook:path=/by-hand,mutating=false,webhookVersions=v1beta1,groups=cache.example.com," +
				"resources=memcacheds,versions=v1,name=a.kb.io\n",
			"package webhook\n\n// +kubebuilder:webhook:path=/by-hand,mutating=false,webhookVersions=v1beta1,groups=cache.example.com," +
				"resources=memcacheds,versions=v1beta2,name=a.kb.io,matchPolicy=Equivalent\n",
		},
		"a ClusterServiceVersion": {
			"bundle/csv.yaml",
			"kind: ClusterServiceVersion\nspec:\n  webhookdefinitions:\n  - type: MutatingAdmissionWebhook\n    webhookPath: " +
				oldPath + "\n    " + rule("v1, v1alpha1"),
			"kind: ClusterServiceVersion\nspec:\n  webhookdefinitions:\n  - type: MutatingAdmissionWebhook\n    webhookPath: " +
				newPath + "\n    " + rule("v1beta2"),
		},
		"by a URL": {
			"config/webhook/url.yaml",
			"webhooks:\n  - clientConfig: {url: \"https://hooks.example.com:8443/by-hand\"}\n    " + rule("v1"),
			"webhooks:\n  - clientConfig: {url: \"https://hooks.example.com:8443/by-hand\"}\n    " + rule("v1beta2"),
		},
		"for a subresource alone": {
			"config/webhook/status.yaml",
			"webhooks:\n- clientConfig: {service: {path: /by-hand}}\n  rules:\n  - {apiGroups: [cache.example.com], " +
				"apiVersions: [v1], resources: [memcacheds/status]}\n",
			"webhooks:\n- clientConfig: {service: {path: /by-hand}}\n  rules:\n  - {apiGroups: [cache.example.com], " +
				"apiVersions: [v1beta2], resources: [memcacheds/status]}\n",
		},
		"in a template of templates": {
			"chart/templates/_helpers.tpl",
			"{{- define \"hooks\" }}\nwebhooks:\n  - clientConfig: {service: {path: " + oldPath + "}}\n    " + rule("v1") + "{{- end }}\n",
			"{{- define \"hooks\" }}\nwebhooks:\n  - clientConfig: {service: {path: " + newPath + "}}\n    " + rule("v1beta2") +
				"{{- end }}\n",
		},
		"a path that begins like that of the kind": {
			"config/default/other.yaml",
			"- op: replace\n  path: /webhooks/2/clientConfig/service/path\n  value: " + oldPath + "backup\n",
			"- op: replace\n  path: /webhooks/2/clientConfig/service/path\n  value: " + oldPath + "backup\n",
		},
		"the binding of an admission policy": {
			"config/policy/binding.yaml",
			"kind: ValidatingAdmissionPolicyBinding\nspec:\n  matchResources:\n    matchPolicy: Exact\n    resourceRules:\n    - " +
				"{apiGroups: [cache.example.com], apiVersions: [v1], operations: [CREATE], resources: [memcacheds]}\n",
			"kind: ValidatingAdmissionPolicyBinding\nspec:\n  matchResources:\n    matchPolicy: Equivalent\n    resourceRules:\n    - " +
				"{apiGroups: [cache.example.com], apiVersions: [v1], operations: [CREATE], resources: [memcacheds]}\n",
		},
	}
	files := map[string]string{}
	for _, test := range tests {
		files[test.file] = test.before
	}
	all, after := changed(t, hooked(t, files), decided.Memcached())
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.after, after[test.file]); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", name, test.file, diff)
		}
	}
	wantFinding(t, all.Report, "config/webhook/url.yaml:2", "its handler gets Memcached in v1beta2 from now on, also what clients send in "+
		"other versions: matchPolicy Equivalent, the default")
}

func TestListsOfAWebhookThatCannotBeEditedAreBlockers(t *testing.T) {
	t.Parallel()
	const begin = "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n  - apiGroups: [cache.example.com]\n    apiVersions:"
	files := map[string]string{
		"chart/templates/choice.yaml": begin + "\n    {{- if .Values.old }}\n    - v1\n    {{- else }}\n    - v1beta2\n    {{- end }}\n" +
			"    resources: [memcacheds]\n",
		"config/webhook/comment.yaml": begin + " [\"v1\", # for old clients\n      \"v1alpha1\"]\n    resources: [memcacheds]\n",
	}
	all, _ := changed(t, hooked(t, files), decided.Memcached())
	for file := range files {
		if !slices.ContainsFunc(all.Blockers, isAt(file+":2", "written in a way that is not edited")) {
			t.Errorf("no blocker for %s among %v", file, all.Blockers)
		}
	}
}

// What serves a path is not known: the code computes the path, or sets webhooks up through an interface.
func TestWebhooksWhoseServerCannotBeToldAreBlockers(t *testing.T) {
	t.Parallel()
	setup := fixture.Archive(t, "testdata/webhooks.txtar")["internal/webhook/setup.go"]
	for name, test := range map[string]struct{ old, now, place string }{
		"a path that is computed": {
			`Register("/by-hand", `, `Register(pathOf("by-hand"), `, "internal/webhook/setup.go:23",
		},
		"an interface": {
			"(&cachev1.Memcached{}).SetupWebhookWithManager(mgr)", "setups[0].SetupWebhookWithManager(mgr)",
			"internal/webhook/setup.go:27",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(setup, test.old) {
				t.Fatalf("the fixture lacks %s", test.old)
			}
			dir := hooked(t, map[string]string{
				"internal/webhook/setup.go": strings.Replace(setup, test.old, test.now, 1) + "\nfunc pathOf(name string) string { " +
					"return \"/\" + name }\n\nvar setups = []interface {\n\tSetupWebhookWithManager(ctrl.Manager) error\n}{&cachev1." +
					"Memcached{}}\n",
				"config/webhook/unknown.yaml": "webhooks:\n- clientConfig: {service: {path: /unknown}}\n  rules:\n" +
					"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: [memcacheds]}\n",
			})
			all, _ := changed(t, dir, decided.Memcached())
			if !slices.ContainsFunc(all.Blockers, isAt("config/webhook/unknown.yaml:2", test.place+" may serve another path")) {
				t.Errorf("no blocker that names %s among %v", test.place, all.Blockers)
			}
		})
	}
}
