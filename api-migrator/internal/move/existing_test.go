// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

// ownersCompared is code that compares an owner reference, and accepts both versions after the move.
const ownersCompared = `// Package owners recognises owners.
package owners

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

// IsOwner reports whether a reference is one to a Memcached.
func IsOwner(memcached *cachev1.Memcached, reference metav1.OwnerReference) bool {
	return reference.APIVersion == cachev1.GroupVersion.String() && reference.Kind == "Memcached" &&
		reference.UID == memcached.UID
}
`

// What sends to webhooks follows the importers, since these call what serves them.
func TestWebhooksFollowImportersThatFollowLater(t *testing.T) {
	t.Parallel()
	for to, test := range map[string]struct{ folder, marker string }{
		"cache.example.com/v1beta2": {"api/v1beta2", "path=/mutate-cache-example-com-v1beta2-memcached,mutating=true"},
		"storage.example.com/v1":    {"api/storage/v1", "path=/mutate-storage-example-com-v1-memcached,mutating=true"},
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			asked := memcachedRequest
			asked.To = to
			checkWebhooksThatFollowLater(t, asked, test.folder, test.marker)
		})
	}
}

func checkWebhooksThatFollowLater(t *testing.T, asked request.Request, folder, marker string) {
	t.Helper()
	_, want := edited(t, hooked(t, nil), asked)
	dir := hooked(t, nil)
	first := asked
	first.Consumers = []string{request.ConsumersNone}
	_, between := edited(t, dir, first)
	for name, content := range between {
		if content != "" {
			fixture.Write(t, dir, map[string]string{name: content})
		}
	}
	fixture.Write(t, dir, map[string]string{
		"api/v1/zz_generated.deepcopy.go":    copies("v1", "Memcached", "MemcachedList", "Backup", "BackupList"),
		folder + "/zz_generated.deepcopy.go": copies(path.Base(folder), "Memcached", "MemcachedList"),
	})
	fixture.Commit(t, dir, "the types")
	all, after := edited(t, dir, asked)
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
	if n := strings.Count(after["api/v1/memcached_webhook.go"]+after[folder+"/memcached_webhook.go"], marker); n != 1 {
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
	if violations, err := typed.Load(t, dir).Violations(); err != nil || len(violations) > 0 {
		t.Errorf("verify: %v, %v", violations, err)
	}
}
