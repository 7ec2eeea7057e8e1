// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture/typed"
)

// textsOf are the findings of a plan, by place.
func textsOf(plan *Plan) map[string]string {
	texts := map[string]string{}
	for _, one := range plan.Findings {
		texts[one.Where] += one.Text + "\n"
	}
	return texts
}

// brokenRepository is a project that does not compile before generators have run.
func brokenRepository(t *testing.T) string {
	t.Helper()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/broken.txtar"))
	fixture.Commit(t, dir, "without generated code")
	return dir
}

func TestCodeThatLacksGeneratedPackagesIsMigrated(t *testing.T) {
	t.Parallel()
	dir := brokenRepository(t)
	fixture.Write(t, dir, map[string]string{"Makefile": "clean:\n\trm -rf internal/mocks\n\n" +
		"generate-mocks:\n\t./hack/mocks.sh\n\nstore:\n\t./hack/all.sh internal/mocks/store.go\n"})
	fixture.Commit(t, dir, "with a Makefile")
	outcome := migrated(t, dir, memcachedRequest)
	for _, command := range []string{"make generate-mocks", "make store"} {
		if !slices.Contains(outcome.Plan.Commands, command) {
			t.Errorf("the commands are %v, want %s", outcome.Plan.Commands, command)
		}
	}
	if slices.Contains(outcome.Plan.Commands, "make clean") {
		t.Errorf("the commands are %v, want nothing that removes the doubles", outcome.Plan.Commands)
	}
	texts := textsOf(outcome.Plan)
	for place, want := range map[string]string{
		"internal/store": "imports github.com/test-org/cache-operator/internal/mocks, whose code is not there: the code is " +
			"changed as far as it is known without. Generate that, and compile\n",
		"internal/legacy": "skipped: it does not compile, and does not use cache.example.com/v1: " +
			"internal/legacy/legacy.go:4:8: could not import example.com/gone ",
	} {
		if !strings.Contains(texts[place], want) {
			t.Errorf("the findings about %s are %q, want %q", place, texts[place], want)
		}
	}
	after := fixture.Files(t, dir)
	for _, file := range []string{"internal/store/store.go", "internal/store/store_test.go"} {
		if !strings.Contains(after[file], "cachev1beta2.Memcached") || strings.Contains(after[file], "cachev1.") {
			t.Errorf("%s is not rewritten:\n%s", file, after[file])
		}
	}
	double := fixture.Archive(t, "testdata/doubles.txtar")["internal/mocks/store.go"]
	fixture.Write(t, dir, map[string]string{ // as its generator writes it now
		"internal/mocks/store.go": strings.ReplaceAll(double, "api/v1\"", "api/v1beta2\""),
	})
	fixture.Run(t, dir, "go", "test", "./internal/store")
}

// git keeps a folder of generated code by a file without code.
func TestCodeThatLacksTheCodeOfAPackageIsMigrated(t *testing.T) {
	t.Parallel()
	dir := brokenRepository(t)
	fixture.Write(t, dir, map[string]string{".gitignore": "/internal/mocks/store.go\n",
		"internal/mocks/doc.go": "package mocks\n"})
	fixture.Commit(t, dir, "with a file that keeps the folder")
	outcome := outlined(t, dir, memcachedRequest)
	const want = "imports github.com/test-org/cache-operator/internal/mocks, whose code is not there: "
	if text := textsOf(outcome.Plan)["internal/store"]; !strings.Contains(text, want) {
		t.Errorf("the findings are %q, want %q", text, want)
	}
	const file = "internal/store/store_test.go"
	if after := string(outcome.After[file]); !strings.Contains(after, "cachev1beta2.Memcached") {
		t.Errorf("%s is not rewritten:\n%s", file, after)
	}
}

func TestAnImporterThatLacksAPackageOfOthersBlocksThePlan(t *testing.T) {
	t.Parallel()
	dir := brokenRepository(t)
	const file = "internal/legacy/legacy.go"
	fixture.Write(t, dir, map[string]string{file: strings.Replace(fixture.Read(t, dir, file), "import ",
		"import _ \"github.com/test-org/cache-operator/api/v1\"\n\nimport ", 1)})
	blockers := outlined(t, dir, memcachedRequest).Plan.Blockers
	if len(blockers) != 1 || blockers[0].Where != "internal/legacy" ||
		!strings.Contains(blockers[0].Text, "could not import example.com/gone ") {
		t.Errorf("blockers: %v", blockers)
	}
	asked := memcachedRequest
	asked.Consumers = []string{"internal/controller"}
	left := outlined(t, dir, asked).Plan
	const want = "skipped: it does not compile, and goes on using cache.example.com/v1 (--consumers): "
	if text := textsOf(left)["internal/legacy"]; len(left.Blockers) > 0 || !strings.HasPrefix(text, want) {
		t.Errorf("if it stays on the old version: blockers %v, findings %q", left.Blockers, text)
	}
}

func TestCodeThatTheKindsNeedHasToCompile(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{
		"internal/size/size.go": "package size\n\nvar Small int = missing\n",
		"api/v1/size.go": "package v1\n\nimport \"github.com/test-org/cache-operator/internal/size\"\n\n" +
			"var small = size.Small\n",
	})
	_, err := examine(t.Context(), typed.Load(t, dir), memcachedRequest)
	fixture.WantProblem(t, err, "the code does not compile: internal/size/size.go:3:17: undefined: missing")
}

func TestImportersOfCodeThatDoesNotCompileAreNamed(t *testing.T) {
	t.Parallel()
	dir := brokenRepository(t)
	fixture.Write(t, dir, map[string]string{"internal/controller/client.go": "package controller\n\n" +
		"import \"github.com/test-org/cache-operator/internal/legacy\"\n\nvar _ legacy.Client\n"})
	plan := outlined(t, dir, memcachedRequest).Plan
	const want = "uses github.com/test-org/cache-operator/internal/legacy, which does not compile, so that some types " +
		"in it are not known"
	if text := textsOf(plan)["internal/controller"]; len(plan.Blockers) > 0 || !strings.Contains(text, want) {
		t.Errorf("blockers %v, findings %q", plan.Blockers, text)
	}
}

func TestIgnoredCodeThatDoesNotCompileIsSkipped(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{
		".gitignore":        "/internal/old/\nzz_*.go\n",
		"internal/old/a.go": "package old\n\nimport v1 \"github.com/test-org/cache-operator/api/v1\"\n\nvar _ v1.Gone\n",
		"internal/controller/zz_mock.go": "// Code generated by a test. DO NOT EDIT.\n\npackage controller\n\n" +
			"var _ = missing\n",
	})
	fixture.Commit(t, dir, "with ignored code")
	outcome := outlined(t, dir, memcachedRequest)
	texts := textsOf(outcome.Plan)
	if !strings.Contains(texts["internal/old"], "skipped: it does not compile, and git ignores it") ||
		!strings.Contains(texts["internal/controller"], "does not compile because of files that git ignores") {
		t.Errorf("findings: %v", outcome.Plan.Findings)
	}
	const file = "internal/controller/memcached_controller.go"
	if !strings.Contains(string(outcome.After[file]), "api/v1beta2") {
		t.Errorf("%s is not rewritten:\n%s", file, outcome.After[file])
	}
}
