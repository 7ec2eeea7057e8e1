// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/project"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// A plan for kinds that both versions have moves the importers, and nothing else: in the end the tree is the one that a
// single plan makes.
func TestImportersThatFollowLaterGiveTheTreeOfOneMove(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]request.Request{"guide": guideRequest, "kubebuilder": memcachedRequest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atOnce := fixture.Repository(t, name)
			migrated(t, atOnce, asked)
			dir := fixture.Repository(t, name)
			first := asked
			first.Consumers = []string{request.ConsumersNone}
			migrated(t, dir, first)
			fixture.Commit(t, dir, "the types")
			between := fixture.Files(t, dir)
			checkAgreement(t, dir)
			outcome := migrated(t, dir, asked)
			after := fixture.Files(t, dir)
			if diff := cmp.Diff(fixture.Files(t, atOnce), after); diff != "" {
				t.Errorf("two moves make another tree than one (-one +two):\n%s", diff)
			}
			if created := newIn(between, after); len(created) > 0 {
				t.Errorf("the second move creates %v", created)
			}
			if done, err := Applied(dir, outcome.Plan); err != nil || !done {
				t.Errorf("the plan would be applied again: %v, %v", done, err)
			}
			checkAgreement(t, dir)
			if again := planned(t, dir, asked); len(again.Edits) > 0 {
				t.Errorf("a third plan changes %v", again.Edits)
			}
		})
	}
}

// What sends to webhooks follows the importers, since these call what serves them.
func TestWebhooksFollowImportersThatFollowLater(t *testing.T) {
	t.Parallel()
	once := hooked(t, nil)
	_, want := edited(t, once, memcachedRequest)
	dir := hooked(t, nil)
	first := memcachedRequest
	first.Consumers = []string{request.ConsumersNone}
	_, between := edited(t, dir, first)
	for name, content := range between {
		if content != "" {
			fixture.Write(t, dir, map[string]string{name: content})
		}
	}
	fixture.Write(t, dir, map[string]string{
		"api/v1/zz_generated.deepcopy.go":      copies("v1", "Memcached", "MemcachedList", "Backup", "BackupList"),
		"api/v1beta2/zz_generated.deepcopy.go": copies("v1beta2", "Memcached", "MemcachedList"),
	})
	fixture.Commit(t, dir, "the types")
	all, after := edited(t, dir, memcachedRequest)
	if len(all.Blockers) > 0 {
		t.Errorf("blocked: %v", all.Blockers)
	}
	for _, name := range []string{"config/webhook/manifests.yaml", "config/webhook/old.yaml", "config/default/patch.yaml",
		"chart/templates/webhook.yaml", "internal/webhook/setup.go", "PROJECT"} {
		if between[name] == want[name] {
			t.Errorf("%s has changed in the first move already", name)
		}
		if diff := cmp.Diff(want[name], after[name]); diff != "" {
			t.Errorf("%s differs from one move (-one +two):\n%s", name, diff)
		}
	}
	const path = "path=/mutate-cache-example-com-v1beta2-memcached,mutating=true"
	if n := strings.Count(after["api/v1/memcached_webhook.go"]+after["api/v1beta2/memcached_webhook.go"], path); n != 1 {
		t.Errorf("%d markers have the new path:\n%s", n, after["api/v1/memcached_webhook.go"])
	}
}

// copies is what makes types objects, as far as compilers look.
func copies(pkg string, names ...string) string {
	text := "// Code generated. DO NOT EDIT.\n\npackage " + pkg + "\n\nimport \"k8s.io/apimachinery/pkg/runtime\"\n"
	for _, name := range names {
		text += "\nfunc (in *" + name + ") DeepCopyObject() runtime.Object { return nil }\n"
	}
	return text
}

// checkAgreement expects what verify does.
func checkAgreement(t *testing.T, dir string) {
	t.Helper()
	p, err := project.Load(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if violations, err := p.Violations(); err != nil || len(violations) > 0 {
		t.Errorf("verify: %v, %v", violations, err)
	}
}
