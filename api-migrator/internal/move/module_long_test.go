// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// The program has two kinds in one types.go, addKnownTypes, and generated clients that know only the old version, so
// its importers keep using that.
func TestAProjectOfOthersIsMigratedAndPassesItsOwnTests(t *testing.T) {
	const module = "sigs.k8s.io/kube-storage-version-migrator"
	dir := fixture.Folder(t)
	from := strings.TrimSpace(fixture.Run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", module))
	if err := tree.Copy(from, dir); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "git", "init", "-q")
	fixture.Run(t, dir, "git", "add", "-f", ".")
	fixture.Commit(t, dir, "before")
	before := fixture.Files(t, dir)
	plan := planned(t, dir, request.Request{
		Kinds: []string{"StorageVersionMigration"}, From: "migration.k8s.io/v1alpha1", To: "migration.k8s.io/v1beta1",
		Storage: request.StorageNew, Unexported: request.UnexportedInternal, Consumers: []string{request.ConsumersNone},
	})
	if done, err := Apply(t.Context(), dir, plan, false); err != nil || !done {
		t.Fatalf("apply: %v, %v", done, err)
	}
	after := fixture.Files(t, dir)
	fixture.Run(t, dir, "go", "build", "./...")
	fixture.Run(t, dir, "go", "vet", "./pkg/apis/...")
	fixture.Run(t, dir, "go", "test", "./pkg/...")
	for name := range after {
		if strings.Contains(name, "migration/shared") || strings.Contains(name, "internal/shared") {
			t.Errorf("%s: nothing is shared in this project", name)
		}
	}
	const types = "pkg/apis/migration/v1beta1/types.go"
	if got := after[types]; !strings.Contains(got, "type StorageVersionMigration struct") ||
		strings.Contains(got, "StorageState") {
		t.Errorf("%s:\n%s", types, got)
	}
	for name, content := range before {
		if after[name] != content && !strings.HasPrefix(name, "pkg/apis/migration/v1alpha1/") &&
			name != "manifests/storage_migration_crd.yaml" {
			t.Errorf("%s has changed", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, types)); err != nil {
		t.Error(err)
	}
}

// In the same program, the generated clients compile with the old names.
func TestGeneratedClientsOfOthersCompileWithTheOldNames(t *testing.T) {
	for _, old := range []string{request.OldWrap, request.OldAlias} {
		t.Run(old, func(t *testing.T) {
			dir := fixture.Folder(t)
			from := strings.TrimSpace(fixture.Run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}",
				"sigs.k8s.io/kube-storage-version-migrator"))
			if err := tree.Copy(from, dir); err != nil {
				t.Fatal(err)
			}
			fixture.Run(t, dir, "git", "init", "-q")
			fixture.Commit(t, dir, "before")
			asked := options{request.SharedNewest, old, request.UnexportedInternal}.of(request.Request{
				Kinds: []string{"StorageVersionMigration"}, From: "migration.k8s.io/v1alpha1",
				To:      "migration.k8s.io/v1beta1",
				Storage: request.StorageNew, Consumers: []string{request.ConsumersNone},
			})
			if err := checkOutcome(t, dir, asked).write(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
			fixture.Run(t, dir, "go", "build", "./...")
			fixture.Run(t, dir, "go", "test", "./pkg/...")
		})
	}
}
