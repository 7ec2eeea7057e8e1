// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/fixture"
)

func TestDoublesOfInterfacesChangeWithThem(t *testing.T) {
	t.Parallel()
	dir := brokenRepository(t)
	if err := os.RemoveAll(filepath.Join(dir, "internal/legacy")); err != nil {
		t.Fatal(err)
	}
	doubles := fixture.Archive(t, "testdata/doubles.txtar")
	fixture.Write(t, dir, doubles)
	fixture.Write(t, dir, map[string]string{"Makefile": "generate:\n\tcontroller-gen object paths=./...\n\n" +
		"generate-mocks: mockgen\n\tgo generate ./... # with mockgen\n\nmockgen:\n\tgo install go.uber.org/mock/mockgen\n"})
	fixture.Commit(t, dir, "with generated code") // git ignores the mocks
	fixture.Run(t, dir, "go", "vet", "./...")
	plan := planned(t, dir, memcachedRequest)
	if len(plan.Blockers) > 0 {
		t.Fatalf("blockers: %v", plan.Blockers)
	}
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("applied %v, %v", done, err)
	}
	fixture.Run(t, dir, "go", "vet", "./...")
	if diff := cmp.Diff([]string{"make generate", "make generate-mocks"}, plan.Commands); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	texts, after := textsOf(plan), fixture.Files(t, dir)
	const (
		mock   = "internal/mocks/store.go"
		fake   = "internal/store/storefakes/fake_store.go"
		client = "internal/client/mock.go"
	)
	for _, file := range []string{mock, fake} {
		if !strings.Contains(after[file], "api/v1beta2\"") || strings.Contains(after[file], "api/v1\"") ||
			!strings.Contains(texts[file], "generated, and changed like the interface that it implements: run its generator") {
			t.Errorf("%s is not that of the new version (%s):\n%s", file, texts[file], after[file])
		}
	}
	if after[client] != doubles[client] || !strings.Contains(texts[client], "generated: run its generator again") {
		t.Errorf("%s mocks a client of the old version, and has changed (%s):\n%s", client, texts[client], after[client])
	}
}
