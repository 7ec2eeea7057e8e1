// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/decided"
)

// hookList is a list of configurations: one lists more than a version and leaves out matchPolicy, which is Exact there.
const hookList = `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"admissionregistration.k8s.io/v1beta1",` +
	`"kind":"ValidatingWebhookConfiguration","webhooks":[{"name":"händ.kb.io","clientConfig":{"service":{"path":"/by-hand"}},` +
	`"rules":[{"apiGroups":["cache.example.com"],"apiVersions":["*","v1alpha1"],"resources":["memcacheds/status","memcacheds"]}` +
	`]}]},{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhooks":[{"name":"m.kb.io",` +
	`"matchPolicy":"Exact","clientConfig":{"service":{"path":"/mutate-cache-example-com-v1-memcached"}},` +
	`"rules":[{"apiGroups":["cache.example.com"],"apiVersions":["v1"],"resources":["memcacheds"]}]}]}]}`

func TestWebhooksInJSONFollowAndAllOtherBytesStay(t *testing.T) {
	t.Parallel()
	indented := func(indent string) func(string) string {
		return func(text string) string {
			var out bytes.Buffer
			if err := json.Indent(&out, []byte(text), "", indent); err != nil {
				t.Fatal(err)
			}
			return out.String() + "\n"
		}
	}
	layouts := map[string]func(string) string{
		"config/webhook/compact.json": func(text string) string { return text },
		"config/webhook/spaced.json":  strings.NewReplacer(`":`, `": `, ",", ", ").Replace,
		"config/webhook/jq.json":      indented("  "),
		"config/webhook/tabs.json":    indented("\t"),
		"config/webhook/crlf.json":    func(text string) string { return strings.ReplaceAll(indented(" ")(text), "\n", "\r\n") },
	}
	files := map[string]string{}
	for name, written := range layouts {
		files[name] = written(hookList)
	}
	all, after := changed(t, hooked(t, files), decided.Memcached())
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	want := strings.NewReplacer(`"händ.kb.io",`, `"händ.kb.io","matchPolicy":"Equivalent",`, `["*","v1alpha1"]`, `["v1beta2"]`,
		`"Exact"`, `"Equivalent"`, "com-v1-memcached", "com-v1beta2-memcached", `["v1"]`, `["v1beta2"]`).Replace(hookList)
	for name, written := range layouts {
		if diff := cmp.Diff(written(want), after[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAManifestOfWebhooksIsLeftToItsAuthor(t *testing.T) {
	t.Parallel()
	const served, computed = "config/webhook/manifests.yaml", "chart/templates/computed.yaml"
	dir := hooked(t, map[string]string{
		computed: "webhooks:\n- clientConfig: {service: {path: /check}}\n  rules:\n" +
			"  - apiGroups: [cache.example.com]\n    apiVersions: [v1, '{{ .Values.version }}']\n    resources: [memcacheds]\n",
	})
	before := fixture.Read(t, dir, served)
	asked := decided.Memcached()
	all, _ := changed(t, dir, asked)
	if !slices.ContainsFunc(all.Blockers, isAt(computed+":2", "change the file by hand: --leave "+computed)) {
		t.Errorf("blockers %v", all.Blockers)
	}
	asked.Leave = []string{served, computed}
	all, after := changed(t, dir, asked)
	if diff := cmp.Diff(before, after[served]); diff != "" || len(all.Blockers) > 0 {
		t.Errorf("blockers %v; %s is changed:\n%s", all.Blockers, served, diff)
	}
	wantFinding(t, all.Report, computed, "left as it is, as you have asked (--leave)")
	wantFinding(t, all.Report, served, "by hand, /mutate-cache-example-com-v1beta2-memcached instead of /mutate-cache-example-com-v1-memc")

	asked.Leave = []string{"PROJECT"}
	if _, err := asked.Check(decided.Layout(t, dir, decided.Memcached()).Project); err == nil ||
		!strings.Contains(err.Error(), "PROJECT, which --leave names, has no CustomResourceDefinition of Memcached in group "+
			"cache.example.com, and no rules of webhooks, admission policies or roles") {
		t.Errorf("leave a file that nothing changes: %v", err)
	}
}
