// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package move

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// The client of another group has a method of its own, also where the version is called the same.
func TestCodeThatUsesGeneratedClientsStaysWhereTheKindGetsAnotherGroup(t *testing.T) {
	t.Parallel()
	dir := withClients(t)
	before := fixture.Files(t, dir)
	asked := memcachedRequest
	asked.To, asked.ToKind = "cache.example.com/v1", "Memcache"
	renamed := planned(t, dir, asked)
	if len(renamed.Blockers) > 0 || !slices.ContainsFunc(renamed.Findings, func(one finding.Finding) bool {
		return one.Where == "internal/remove/remove.go:12" && strings.HasPrefix(one.Text, "uses Memcacheds of a client ")
	}) {
		t.Errorf("with another name: blockers %v, findings %v", renamed.Blockers, renamed.Findings)
	}
	asked.To, asked.ToKind = "storage.example.com/v1", ""
	outcome := migrated(t, dir, asked)
	after := fixture.Files(t, dir)
	for _, name := range []string{"internal/reconcile/reconcile.go", "internal/remove/remove.go", "internal/size/size.go"} {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s has changed:\n%s", name, diff)
		}
	}
	if !strings.Contains(after["internal/names/names.go"], "*storagev1.Memcached") {
		t.Errorf("code that uses no client stays:\n%s", after["internal/names/names.go"])
	}
	const want = "internal/remove/remove.go:12: uses Memcacheds of a client that is generated for cache.example.com/v1: the " +
		"package goes on using that version. Generate the client of storage.example.com/v1, and plan again; or write " +
		"StorageV1().Memcacheds then"
	if !slices.ContainsFunc(outcome.Plan.Findings, func(one finding.Finding) bool { return one.String() == want }) {
		t.Errorf("no finding %q in %v", want, outcome.Plan.Findings)
	}
	if !strings.Contains(outcome.Plan.Copy.Text(), "have to follow first") {
		t.Error("the plan of the copy does not say that packages have to follow")
	}
	checkAgreement(t, dir)
	generateClients(t, dir, "api/storage/v1", "storage", "v1")
	again := migrated(t, dir, asked)
	checkAgreement(t, dir)
	if !again.Plan.OnlyImporters {
		t.Error("the second plan moves more than importers")
	}
	after = fixture.Files(t, dir)
	for name, line := range map[string]string{
		"internal/apply/apply.go":     "pkg/client/applyconfiguration/storage/v1\"",
		"internal/remove/remove.go":   "StorageV1().Memcacheds",
		"internal/options/options.go": "*storagev1.Memcached",
		"internal/watch/watch.go":     "factory.Storage().V1().Memcacheds()",
		"internal/samples/samples.go": "new(storagev1.Memcached)",
	} {
		if !strings.Contains(after[name], line) {
			t.Errorf("%s lacks %s:\n%s", name, line, after[name])
		}
	}
	// What stands for the versions of a group in informers has none of another group.
	const left = "internal/reconcile/reconcile.go"
	if diff := cmp.Diff(before[left], after[left]); diff != "" || !strings.Contains(textsOf(again.Plan)[left+":22"], "uses Memcacheds of a client") {
		t.Errorf("%s has changed, or is not reported:\n%s\n%v", left, diff, again.Plan.Findings)
	}
}

// Generators call groups by their first label, unless the package says another name.
func TestAClientOfTheOldGroupIsNotTakenForThatOfTheNewOne(t *testing.T) {
	t.Parallel()
	const file, getter = "internal/watch/watch.go", "factory.Cache().V1().Memcacheds()"
	for to, instead := range map[string]string{
		"cache.other.example.com/v1": "Cache().V1().Memcacheds",
		"new-group.example.com/v1":   "Memcacheds of the new client",
	} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			dir := withClients(t)
			asked := memcachedRequest
			asked.To = to
			plan := migrated(t, dir, asked).Plan
			texts := textsOf(plan)
			if !strings.HasSuffix(texts[file+":8"], "write "+instead+" then\n") {
				t.Errorf("the findings are %q, want %q", texts[file+":8"], instead)
			}
			if after := fixture.Read(t, dir, file); !strings.Contains(after, getter) {
				t.Errorf("%s has become:\n%s", file, after)
			}
			at := slices.IndexFunc(plan.Edits, func(e Edit) bool { return path.Base(e.File) == "groupversion_info.go" && e.Action == "create" })
			folder := path.Dir(plan.Edits[at].File)
			fixture.Write(t, dir, map[string]string{folder + "/doc.go": "// +groupGoName=Storage\n\npackage v1\n"})
			generateClients(t, dir, folder, "storage", "v1")
			migrated(t, dir, asked)
			if after := fixture.Read(t, dir, file); !strings.Contains(after, "factory.Storage().V1().Memcacheds()") {
				t.Errorf("%s is, once the client is generated:\n%s", file, after)
			}
		})
	}
}
