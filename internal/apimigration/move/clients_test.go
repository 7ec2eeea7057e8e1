// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
)

// A generated client knows the old version alone until it is generated again. Code that takes objects from it stays on
// that version with the first plan, and follows with the second one.
func TestCodeThatUsesGeneratedClientsFollowsOnceTheyAreGenerated(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/clients.txtar"))
	fixture.Commit(t, dir, "with clients")
	before := fixture.Files(t, dir)
	outcome := migrated(t, dir, memcachedRequest)
	after := fixture.Files(t, dir)
	users := []string{"internal/reconcile/reconcile.go", "internal/remove/remove.go", "internal/size/size.go",
		"internal/size/size_test.go"}
	for name := range before {
		if (strings.HasPrefix(name, "pkg/client/") || slices.Contains(users, name)) && before[name] != after[name] {
			t.Errorf("%s has changed:\n%s", name, after[name])
		}
	}
	if !strings.Contains(after["internal/names/names.go"], "*cachev1beta2.Memcached") {
		t.Errorf("code that uses no client stays:\n%s", after["internal/names/names.go"])
	}
	var said []string
	for _, one := range outcome.Plan.Findings {
		if strings.HasPrefix(one.String(), "internal/") {
			said = append(said, one.String())
		}
	}
	const rest = " of a client that is generated for cache.example.com/v1: the package goes on using that version. " +
		"Generate the client of v1beta2, and plan again; or write "
	const module = "github.com/test-org/cache-operator/"
	want := []string{
		"internal/reconcile/reconcile.go:16: uses MemcachedLister" + rest + "MemcachedLister of " + module +
			"pkg/client/listers/cache/v1beta2 then",
		"internal/reconcile/reconcile.go:21: uses Memcacheds" + rest + "V1beta2().Memcacheds then",
		"internal/reconcile/reconcile.go:25: uses Memcacheds" + rest + "CacheV1beta2().Memcacheds then",
		"internal/reconcile/reconcile.go:36: uses Memcacheds" + rest + "CacheV1beta2().Memcacheds then",
		"internal/remove/remove.go:12: uses Memcacheds" + rest + "CacheV1beta2().Memcacheds then",
		"internal/size: goes on using cache.example.com/v1, since internal/reconcile does, with which it exchanges Memcached",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"./hack/update-codegen.sh"}, outcome.Plan.Commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	generateClients(t, dir)
	checkAgreement(t, dir)
	migrated(t, dir, memcachedRequest)
	checkAgreement(t, dir)
	after = fixture.Files(t, dir)
	pairs := strings.NewReplacer(
		"\tcachev1 \""+module+"api/v1\"", "\tcachev1beta2 \""+module+"api/v1beta2\"", "*cachev1.", "*cachev1beta2.",
		"new(cachev1.", "new(cachev1beta2.",
		"CacheV1().Memcacheds", "CacheV1beta2().Memcacheds", "informers.V1()", "informers.V1beta2()",
		"memcacheds listers.", "memcacheds listersv1beta2.",
		"\tlisters \""+module+"pkg/client/listers/cache/v1\"\n", "\tlisters \""+module+"pkg/client/listers/cache/v1\"\n"+
			"\tlistersv1beta2 \""+module+"pkg/client/listers/cache/v1beta2\"\n")
	for _, name := range users {
		if diff := cmp.Diff(pairs.Replace(before[name]), after[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// generateClients does what generators do, for a version that has one kind.
func generateClients(t *testing.T, dir string) {
	t.Helper()
	files := map[string]string{}
	both := strings.NewReplacer("cachev1 ", "cachev1beta2 ", "cachev1.", "cachev1beta2.", "CacheV1", "CacheV1beta2",
		"/v1\"", "/v1beta2\"", "package v1", "package v1beta2", "\tBackupsGetter\n", "")
	for name, content := range fixture.Files(t, dir) {
		if strings.HasPrefix(name, "pkg/client/") && strings.Contains(name, "/v1/") && !strings.Contains(name, "backup") {
			files[strings.Replace(name, "/v1/", "/v1beta2/", 1)] = both.Replace(content)
		}
	}
	for name, pairs := range map[string][]string{
		"pkg/client/versioned/clientset.go": {"\tcachev1 \"github.com/test-org/cache-operator/pkg/client/typed/cache/v1\"\n",
			"\tCacheV1() cachev1.CacheV1Interface\n"},
		"pkg/client/informers/cache/interface.go": {
			"import v1 \"github.com/test-org/cache-operator/pkg/client/informers/cache/v1\"\n", "\tV1() v1.Interface\n"},
	} {
		text := fixture.Read(t, dir, name)
		for _, line := range pairs {
			twin := strings.NewReplacer("cachev1", "cachev1beta2", "CacheV1", "CacheV1beta2", "cache/v1\"", "cache/v1beta2\"",
				"import v1 ", "import v1beta2 ", "V1()", "V1beta2()", "v1.", "v1beta2.").Replace(line)
			text = strings.Replace(text, line, line+twin, 1)
		}
		files[name] = text
	}
	fixture.Write(t, dir, files)
	fixture.Commit(t, dir, "generated")
}
