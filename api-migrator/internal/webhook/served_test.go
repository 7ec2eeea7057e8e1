// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
)

func TestAHandlerInAMapIsServedAtThePathThatIsItsKey(t *testing.T) {
	t.Parallel()
	const registers = "\tmgr.GetWebhookServer().Register(\"/by-hand\", &admission.Webhook{Handler: &byHand{}})\n"
	setup := fixture.Archive(t, "testdata/webhooks.txtar")["internal/webhook/setup.go"]
	if !strings.Contains(setup, registers) {
		t.Fatalf("the fixture lacks\n%s", registers)
	}
	setup = strings.Replace(setup, registers, "\tfor path, handler := range handlers {\n\t\tmgr.GetWebhookServer().Register("+
		"\"/\"+path, &admission.Webhook{Handler: handler})\n\t}\n", 1) +
		"\nvar handlers = map[string]admission.Handler{\"by-hand\": &byHand{}}\n"
	dir := hooked(t, map[string]string{"internal/webhook/setup.go": setup})
	all, after := changed(t, dir, decided.Memcached())
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	if manifest := after["config/webhook/old.yaml"]; !strings.Contains(manifest, "path: /by-hand") ||
		!strings.Contains(manifest, `apiVersions: ["v1beta2"]`) {
		t.Errorf("the rule does not follow the handler, or its path has changed:\n%s", manifest)
	}
}

// What cannot be followed is never left behind without a word.
func TestWebhooksThatCannotFollowAreBlockers(t *testing.T) {
	t.Parallel()
	dir := hooked(t, map[string]string{
		"config/webhook/both.yaml": "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: [memcacheds, backups]}\n",
		"config/webhook/wild.yaml": "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: ['*']}\n",
		"config/default/kustomization.yaml": "patches:\n- patch: |-\n    webhooks:\n    - clientConfig: {service: {path: " +
			"/mutate-cache-example-com-v1-memcached}}\n      rules:\n      - apiVersions: [v1]\n",
		"config/webhook/broken.yaml": "a: [\npath: /mutate-cache-example-com-v1-memcached\n",
		"chart/templates/computed.yaml": "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - apiGroups: [cache.example.com]\n    apiVersions: [v1, '{{ .Values.version }}']\n    resources: [memcacheds]\n",
		"chart/templates/other.yaml": "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - apiGroups: [cache.example.com]\n    apiVersions: ['{{ .Values.version }}']\n    resources: [memcacheds]\n",
		"chart/templates/lines.yaml": "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - apiGroups: [cache.example.com]\n    apiVersions:\n    - v1\n    - {{ .Values.version }}\n" +
			"    resources: [memcacheds]\n",
		"chart/templates/path.yaml": "webhooks:\n- clientConfig: {service: {path: '{{ .Values.path }}'}}\n  rules:\n" +
			"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: [memcacheds]}\n",
		"config/webhook/rules.yaml": "webhooks:\n- name: mmemcached.kb.io\n  rules:\n" +
			"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: [memcacheds]}\n",
		"internal/generic/generic.go": "package generic\n\nimport ctrl \"sigs.k8s.io/controller-runtime\"\n" +
			"import \"sigs.k8s.io/controller-runtime/pkg/client\"\n\n// Serve serves any.\n" +
			"func Serve(mgr ctrl.Manager, o client.Object) error { return ctrl.NewWebhookManagedBy(mgr, o).Complete() }\n",
		"config/webhook/unknown.yaml": "webhooks:\n- clientConfig: {service: {path: " +
			"/validate-cache-example-com-v1-memcached}}\n  rules:\n" +
			"  - {apiGroups: [cache.example.com], apiVersions: [v1], resources: [memcacheds]}\n",
	})
	all, _ := changed(t, dir, decided.Memcached())
	for place, want := range map[string]string{
		"config/webhook/both.yaml:2":          "sends backups of cache.example.com to /check, too",
		"chart/templates/computed.yaml:2":     "written in a way that is not edited: its rule has to list v1beta2 alone",
		"chart/templates/other.yaml:2":        "written in a way that is not edited: its rule has to list v1beta2 alone",
		"chart/templates/lines.yaml:2":        "written in a way that is not edited: its rule has to list v1beta2 alone",
		"chart/templates/path.yaml:2":         "is a webhook of Memcached and does not say its path here",
		"config/webhook/rules.yaml:2":         "is a webhook of Memcached and does not say its path here",
		"config/default/kustomization.yaml:2": "has a webhook in a string, which is not edited: it sends to",
		"config/webhook/wild.yaml:2":          "sends * of cache.example.com to /check, too",
		"config/webhook/broken.yaml:2":        "cannot be read",
		"config/webhook/unknown.yaml:2":       "internal/generic/generic.go:7 may serve another path",
	} {
		if !slices.ContainsFunc(all.Blockers, isAt(place, want)) {
			t.Errorf("no blocker %s: %s among %v", place, want, all.Blockers)
		}
	}
}
