// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
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

// A plan for kinds that both versions have moves the importers, and nothing else: in the end the tree is the one that a
// single plan makes.
func TestImportersThatFollowLaterGiveTheTreeOfOneMove(t *testing.T) {
	t.Parallel()
	to := func(asked request.Request, group string) request.Request {
		asked.To = group
		return asked
	}
	for _, test := range []struct {
		project string
		asked   request.Request
	}{
		{"guide", guideRequest}, {"kubebuilder", memcachedRequest},
		{"guide", to(guideRequest, "catalogs.example.com/v1")}, {"kubebuilder", to(memcachedRequest, "storage.example.com/v1")},
	} {
		name, asked := test.project, test.asked
		t.Run(name+" to "+asked.To, func(t *testing.T) {
			t.Parallel()
			atOnce, dir := fixture.Repository(t, name), fixture.Repository(t, name)
			if name == "kubebuilder" {
				for _, tree := range []string{atOnce, dir} {
					fixture.Write(t, tree, map[string]string{"internal/owners/owners.go": ownersCompared})
					fixture.Commit(t, tree, "with a comparison")
				}
			}
			migrated(t, atOnce, asked)
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

// A kind that follows is registered once, in the list that the version has by now, whether that is generated or not.
func TestAKindThatFollowsIsListedOnce(t *testing.T) {
	t.Parallel()
	byHand := fixture.Archive(t, "testdata/register-by-hand.txtar")
	generated := "//go:build !ignore_autogenerated\n\n" + strings.Replace(byHand["register.go"], "package v1\n",
		"// Code generated by register-gen. DO NOT EDIT.\n\npackage v1\n", 1)
	for name, register := range map[string]map[string]string{
		"register.go": byHand, "zz_generated.register.go": {"zz_generated.register.go": generated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := clientGen(t, register)
			migrated(t, dir, memcachedRequest)
			fixture.Commit(t, dir, "the first kind")
			before := fixture.Files(t, dir)
			second := memcachedRequest
			second.Kinds = []string{"Backup"}
			migrated(t, dir, second)
			after := fixture.Files(t, dir)
			want := []string{"pkg/apis/cache/v1beta2/backup_types.go"}
			if diff := cmp.Diff(want, newIn(before, after)); diff != "" {
				t.Errorf("new files (-want +got):\n%s", diff)
			}
			const folder = "pkg/apis/cache/v1beta2/"
			for _, kind := range []string{"&Backup{}", "&BackupList{}", "&Memcached{}", "&MemcachedList{}"} {
				if n := strings.Count(after[folder+name], kind); n != 1 {
					t.Errorf("%s is listed %d times:\n%s", kind, n, after[folder+name])
				}
			}
			if before[folder+"doc.go"] != after[folder+"doc.go"] || before[folder+"types.go"] != after[folder+"types.go"] {
				t.Errorf("files of the version have changed:\n%s", after[folder+"types.go"])
			}
			if out := fixture.Run(t, dir, "go", "run", "./cmd"); out != "true true\n" {
				t.Errorf("the scheme does not know the kinds: %s", out)
			}
			checkAgreement(t, dir)
		})
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

// Code that has objects of both groups may copy them: it stays as it is, also where the two are in two files.
func TestCodeThatCopiesObjectsToAnotherGroupIsLeft(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	asked := memcachedRequest
	asked.To, asked.Consumers = "storage.example.com/v1", []string{request.ConsumersNone}
	migrated(t, dir, asked)
	const file = "internal/copier/old.go"
	fixture.Write(t, dir, map[string]string{
		file: "package copier\n\nimport cachev1 \"github.com/test-org/cache-operator/api/v1\"\n\n// All are copied.\nvar All " +
			"cachev1.MemcachedList\n",
		"internal/copier/new.go": "// Package copier copies.\npackage copier\n\nimport storagev1 " +
			"\"github.com/test-org/cache-operator/api/storage/v1\"\n\n// Copies are what it makes.\nvar Copies []storagev1.Memcached\n",
		"api/storage/v1/finalizer.go": "package v1\n\n// Finalizer is set.\nconst Finalizer = \"memcached.cache.example.com/finalizer\"\n",
	})
	fixture.Commit(t, dir, "with a copier")
	before := fixture.Read(t, dir, file)
	asked.Consumers = []string{request.ConsumersAll}
	plan := migrated(t, dir, asked).Plan
	if after := fixture.Read(t, dir, file); after != before {
		t.Errorf("the copier has become:\n%s", after)
	}
	texts := textsOf(plan)
	for place, want := range map[string]string{
		file: "left as it is, since it names MemcachedList of cache.example.com/v1, and its package names Memcached of " +
			"storage.example.com/v1, such as to copy objects",
		"api/storage/v1/finalizer.go:4": "is a finalizer: ",
	} {
		if !strings.Contains(texts[place], want) {
			t.Errorf("%s has the findings %q, want %q", place, texts[place], want)
		}
	}
	if plan.Copy == nil {
		t.Fatal("the second plan does not say how to copy")
	}
	const install = "kubectl apply --server-side -f config/crd/bases/storage.example.com_memcacheds.yaml"
	if text := plan.Copy.Text(); !strings.Contains(text, install) || strings.Contains(text, "follow first") {
		t.Errorf("want the new CRD to be named, and the copier not to follow:\n%s", text)
	}
}

// A group that someone has made by hand may lack its CRD.
func TestANewGroupWithoutACRDIsAFinding(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	asked := memcachedRequest
	asked.To = "storage.example.com/v1"
	migrated(t, dir, asked)
	fixture.Run(t, dir, "rm", "config/crd/bases/storage.example.com_memcacheds.yaml")
	fixture.Commit(t, dir, "without the CRD")
	plan := planned(t, dir, asked)
	const want = "no manifest has the CRD of Memcached in storage.example.com"
	if text := textsOf(plan)["api/storage/v1"]; !strings.HasPrefix(text, want) {
		t.Errorf("the findings are %v, want %q", plan.Findings, want)
	}
}
