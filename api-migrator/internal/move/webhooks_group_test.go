// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// No code serves the old kind any more: an entry for it would have every change of an old object refused.
func TestWebhooksOfAKindThatGetsAnotherCRDAreThoseOfTheNewKind(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ to, kind, path, group, version, resource, code string }{
		"another group": {
			to: "storage.example.com/v1", path: "/mutate-storage-example-com-v1-memcached", group: "storage.example.com",
			version: "v1", resource: "memcacheds", code: "api/storage/v1/memcached_webhook.go",
		},
		"another name in the same package": {
			to: "cache.example.com/v1", kind: "MemoryCache", path: "/mutate-cache-example-com-v1-memorycache",
			group: "cache.example.com", version: "v1", resource: "memorycaches", code: "api/v1/memorycache_webhook.go",
		},
		"both, and another version": {
			to: "storage.example.com/v2", kind: "MemoryCache", path: "/mutate-storage-example-com-v2-memorycache",
			group: "storage.example.com", version: "v2", resource: "memorycaches", code: "api/storage/v2/memorycache_webhook.go",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := hooked(t, nil)
			before := fixture.Files(t, dir)
			asked := memcachedRequest
			asked.To, asked.ToKind = test.to, test.kind
			all, after := edited(t, dir, asked)
			if len(all.Blockers) > 0 {
				t.Errorf("blocked: %v", all.Blockers)
			}
			for file, changed := range map[string][]string{
				"config/webhook/manifests.yaml": {"path: /mutate-cache-example-com-v1-memcached", "path: " + test.path,
					"    - cache.example.com\n    apiVersions:\n    - v1\n    resources:\n    - memcacheds",
					"    - " + test.group + "\n    apiVersions:\n    - " + test.version + "\n    resources:\n    - " + test.resource},
				"config/webhook/old.yaml": {`["cache.example.com"]`, `["` + test.group + `"]`, `["*", 'v1alpha1'] #`,
					`["` + test.version + `"] #`, `["memcacheds/status", memcacheds]`,
					`["` + test.resource + `/status", ` + test.resource + `]`},
				"config/default/patch.yaml": {"/mutate-cache-example-com-v1-memcached", test.path},
				"chart/templates/webhook.yaml": {"/mutate-cache-example-com-v1-memcached", test.path, "- cache.example.com",
					"- " + test.group, "- \"v1\"\n          - v1alpha1", `- "` + test.version + `"`, "- memcacheds", "- " + test.resource},
			} {
				if diff := cmp.Diff(strings.NewReplacer(changed...).Replace(before[file]), after[file]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
			rule := "groups=" + test.group + ",resources=" + test.resource
			for _, want := range []string{"path=" + test.path + ",mutating=true", rule + ",verbs=create;update,versions=" +
				test.version + ",name=", rule + ",versions=" + test.version + ",name=vmemcached"} {
				if strings.Count(after[test.code], want) != 1 {
					t.Errorf("the markers of the new kind lack %q:\n%s", want, after[test.code])
				}
			}
			if old := after["api/v1/memcached_webhook.go"]; strings.Contains(old, "+kubebuilder:webhook") {
				t.Errorf("the old kind has markers, too: two webhooks would have one name:\n%s", old)
			}
			if n := strings.Count(after["PROJECT"], "validation: true"); n != 1 || strings.Contains(after["PROJECT"],
				"kind: Memcached\n  path: github.com/test-org/cache-operator/api/v1\n  version: v1\n  webhooks") {
				t.Errorf("PROJECT lists webhooks of the old kind, which are not served:\n%s", after["PROJECT"])
			}
			for _, place := range []string{"config/webhook/manifests.yaml:6", "chart/templates/webhook.yaml:9"} {
				wantFinding(t, all, place, "is for the new kind from now on, and the old kind has no such webhook: apply it "+
					"together with the operator that serves the new kind")
			}
			for _, place := range []string{"config/default/patch.yaml:4", "config/default/patch.yaml:7"} {
				wantFinding(t, all, place, "the rule has to list the group and the version that the webhook's path names")
			}
		})
	}
}

func TestWebhooksOfTheOldKindStayWhereItsCodeIsCalled(t *testing.T) {
	t.Parallel()
	asked := memcachedRequest
	asked.To = "storage.example.com/v1"
	dir := hooked(t, map[string]string{"second/second.go": strings.Replace(fixture.Archive(t,
		"../webhook/testdata/webhooks.txtar")["internal/webhook/setup.go"], "package webhook", "package second", 1)})
	before := fixture.Files(t, dir)
	asked.Consumers = []string{"internal/...", "cmd/..."}
	all, after := edited(t, dir, asked)
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	for _, name := range []string{"config/webhook/manifests.yaml", "config/webhook/old.yaml", "config/default/patch.yaml"} {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
	if moved := after["api/storage/v1/memcached_webhook.go"]; strings.Contains(moved, "+kubebuilder:webhook") {
		t.Errorf("the new kind has the old one's markers:\n%s", moved)
	}
	wantFinding(t, all, "config/webhook/manifests.yaml:6", "sends Memcached of cache.example.com to code that goes on "+
		"serving it, and other code serves the new kind at /by-hand and /check and /mutate-storage-example-com-v1-memcached")
}
