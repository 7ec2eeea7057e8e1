// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// hooked is a kubebuilder project with webhooks.
func hooked(t *testing.T, files map[string]string) string {
	t.Helper()
	return operator(t, "../webhook/testdata/webhooks.txtar", files)
}

// operator is a kubebuilder project with the files of an archive, and more. It needs all of controller-runtime.
func operator(t *testing.T, archive string, files map[string]string) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, archive))
	fixture.Require(t, dir, "github.com/test-org/cache-operator")
	fixture.Write(t, dir, files)
	fixture.Commit(t, dir, "with webhooks")
	return dir
}

// edited makes the edits of a request without trying them in a copy.
func edited(t *testing.T, dir string, asked request.Request) (*edits, map[string]string) {
	t.Helper()
	all, err := edit(t.Context(), layoutOn(t, dir, asked))
	if err != nil {
		t.Fatal(err)
	}
	after := fixture.Files(t, dir)
	for name, change := range all.Changes {
		after[name] = string(change.Content)
	}
	return all, after
}

func TestWhatSendsToWebhooksFollowsTheCodeThatServesThem(t *testing.T) {
	t.Parallel()
	dir := hooked(t, nil)
	before := fixture.Files(t, dir)
	all, after := edited(t, dir, memcachedRequest)
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	const oldPath, newPath = "/mutate-cache-example-com-v1-memcached", "/mutate-cache-example-com-v1beta2-memcached"
	replaced := func(name string, pairs ...string) string {
		text := before[name]
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(text, pairs[i]) {
				t.Errorf("%s has no %q", name, pairs[i])
			}
			text = strings.Replace(text, pairs[i], pairs[i+1], 1)
		}
		return text
	}
	for name, want := range map[string]string{
		"config/webhook/manifests.yaml": replaced("config/webhook/manifests.yaml", oldPath, newPath, "    - v1\n",
			"    - v1beta2\n"),
		"config/webhook/old.yaml": replaced("config/webhook/old.yaml", `["*", 'v1alpha1'] #`, `["v1beta2"] #`,
			"  clientConfig", "  matchPolicy: Equivalent\n  clientConfig"),
		"config/default/patch.yaml": replaced("config/default/patch.yaml", oldPath, newPath),
		"chart/templates/webhook.yaml": replaced("chart/templates/webhook.yaml", oldPath, newPath,
			"- \"v1\"\n          - v1alpha1\n", "- \"v1beta2\"\n"),
	} {
		if diff := cmp.Diff(want, after[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	moved := after["api/v1beta2/memcached_webhook.go"]
	for _, want := range []string{"path=" + newPath + ",mutating=true", "verbs=create;update,versions=v1beta2,name=",
		"path=/check,mutating=false,matchPolicy=Equivalent,", "resources=memcacheds,versions=v1beta2,name=vmemcached"} {
		if !strings.Contains(moved, want) {
			t.Errorf("the new version's markers lack %q:\n%s", want, moved)
		}
	}
	if old := after["api/v1/memcached_webhook.go"]; strings.Contains(old, "+kubebuilder:webhook") {
		t.Errorf("the old version has markers, too: two webhooks would have one name:\n%s", old)
	}
	const entry = "  webhooks:\n    defaulting: true\n    validation: true\n    webhookVersion: v1\n"
	wantEntry := "  group: cache\n  kind: Memcached\n  path: github.com/test-org/cache-operator/api/"
	for _, want := range []string{
		wantEntry + "v1\n  version: v1\n- api", wantEntry + "v1beta2\n  version: v1beta2\n" + entry,
	} {
		if !strings.Contains(after["PROJECT"], want) {
			t.Errorf("PROJECT lacks\n%s:\n%s", want, after["PROJECT"])
		}
	}
	wantFinding(t, all, "config/default/patch.yaml:4", "patches the versions of a webhook's rule by its place")
	wantFinding(t, all, "config/default/patch.yaml:7", "patches the versions of a webhook's rule by its place")
	wantFinding(t, all, "config/default/kustomization.yaml:5", "has the rule of a webhook in a string")
	wantFinding(t, all, "chart/templates/odd.yaml", "cannot be read")
	wantFinding(t, all, "chart/templates/webhook.yaml:9", "listed the versions v1, v1alpha1")
	wantFinding(t, all, "config/webhook/old.yaml:4", "matchPolicy becomes Equivalent")
}

func TestWebhooksOfTheOldVersionStayWhereItsCodeIsCalled(t *testing.T) {
	t.Parallel()
	dir := hooked(t, nil)
	before := fixture.Files(t, dir)
	asked := memcachedRequest
	asked.Consumers = []string{request.ConsumersNone}
	all, after := edited(t, dir, asked)
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	for _, name := range []string{"config/webhook/manifests.yaml", "config/default/patch.yaml"} {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
	if moved := after["api/v1beta2/memcached_webhook.go"]; strings.Contains(moved, "+kubebuilder:webhook") {
		t.Errorf("the new version has markers of webhooks that are not served:\n%s", moved)
	}
	if project := after["PROJECT"]; !strings.Contains(project, "api/v1\n  version: v1\n  webhooks:\n    defaulting") ||
		!strings.Contains(project, "api/v1beta2\n  version: v1beta2\n- api") {
		t.Errorf("PROJECT has webhooks of the new version, which are not served:\n%s", project)
	}
	if old := after["config/webhook/old.yaml"]; !strings.Contains(old, `apiVersions: ["v1"] #`) {
		t.Errorf("requests in the new version would be sent as they are:\n%s", old)
	}
}

func TestWebhooksThatNothingSetsUpStayAndAreReported(t *testing.T) {
	t.Parallel()
	dir := hooked(t, map[string]string{
		"internal/webhook/setup.go": "// Package webhook serves nothing.\npackage webhook\n",
	})
	before := fixture.Files(t, dir)
	all, after := edited(t, dir, memcachedRequest)
	wantFinding(t, all, "api/v1/memcached_webhook.go:8", "SetupWebhookWithManager sets up webhooks, and no code of this "+
		"project calls it")
	if diff := cmp.Diff(before["config/webhook/manifests.yaml"], after["config/webhook/manifests.yaml"]); diff != "" {
		t.Errorf("the manifest has changed:\n%s", diff)
	}
}

func TestWebhooksThatNothingSetsUpGoWithTheKindThatIsRemoved(t *testing.T) {
	t.Parallel()
	dir := hooked(t, map[string]string{
		"internal/webhook/setup.go": "// Package webhook serves nothing.\npackage webhook\n",
	})
	asked := memcachedRequest
	asked.Old = request.OldRemove
	all, after := edited(t, dir, asked)
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	wantFinding(t, all, "api/v1/memcached_webhook.go:8", "SetupWebhookWithManager sets up webhooks, and no code of this "+
		"project calls it: it goes to v1beta2, and what sends to them follows")
	if text := after["config/webhook/manifests.yaml"]; !strings.Contains(text,
		"path: /mutate-cache-example-com-v1beta2-memcached\n") {
		t.Errorf("the manifest does not follow:\n%s", text)
	}
}

// kubebuilder writes the versions that convert to one into the entry of that one, too.
func TestAnEntryOfPROJECTThatSaysMoreOfWebhooksIsLeftToItsAuthor(t *testing.T) {
	t.Parallel()
	archive := fixture.Archive(t, "../webhook/testdata/webhooks.txtar")
	text := strings.Replace(archive["PROJECT"], "  webhooks:\n", "  webhooks:\n    conversion: true\n", 1)
	dir := hooked(t, map[string]string{"PROJECT": text})
	all, after := edited(t, dir, memcachedRequest)
	wantFinding(t, all, "PROJECT:16", "lists webhooks of Memcached for v1 and v1beta2")
	if n := strings.Count(after["PROJECT"], "conversion: true"); n != 2 {
		t.Errorf("PROJECT says conversion %d times, want that of both entries:\n%s", n, after["PROJECT"])
	}
}

// The plan type-checks the outcome.
func TestWebhooksOfOlderBuildersFollowAndCompile(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	library := fixture.Folder(t)
	for name, content := range fixture.Archive(t, "testdata/webhooks-for.txtar") {
		in := dir
		if below, ok := strings.CutPrefix(name, "library/"); ok {
			in, name = library, below
		}
		fixture.Write(t, in, map[string]string{name: content})
	}
	fixture.Append(t, dir, "go.mod", "\nreplace sigs.k8s.io/controller-runtime => "+library+"\n")
	fixture.Commit(t, dir, "with webhooks")
	before := fixture.Files(t, dir)
	outcome := made(t, dir, memcachedRequest)
	if len(outcome.Plan.Blockers) > 0 {
		t.Errorf("blocked: %v", outcome.Plan.Blockers)
	}
	after := map[string]string{}
	for name, content := range outcome.After {
		after[name] = string(content)
	}
	const oldPath, newPath = "/mutate-cache-example-com-v1-memcached", "/mutate-cache-example-com-v1beta2-memcached"
	want := strings.Replace(before["config/webhook/manifests.yaml"], oldPath, newPath, 1)
	want = strings.Replace(want, "    - v1\n", "    - v1beta2\n", 1)
	if diff := cmp.Diff(want, after["config/webhook/manifests.yaml"]); diff != "" {
		t.Errorf("config/webhook/manifests.yaml (-want +got):\n%s", diff)
	}
	code := after["internal/webhook/v1/memcached_webhook.go"]
	for _, want := range []string{"For(&cachev1beta2.Memcached{})", "path=" + newPath + ",mutating=true",
		"versions=v1beta2,name=mmemcached-v1.kb.io"} {
		if !strings.Contains(code, want) {
			t.Errorf("the webhook lacks %q:\n%s", want, code)
		}
	}
	if changed, ok := after["internal/webhook/v1/backup_webhook.go"]; ok {
		t.Errorf("the webhook of a kind that stays has changed:\n%s", changed)
	}
}

func isAt(place, text string) func(finding.Finding) bool {
	return func(one finding.Finding) bool { return one.Where == place && strings.Contains(one.Text, text) }
}

func wantFinding(t *testing.T, all *edits, place, text string) {
	t.Helper()
	if !slices.ContainsFunc(all.Findings, isAt(place, text)) {
		t.Errorf("no finding %s: %s among %v", place, text, all.Findings)
	}
}
