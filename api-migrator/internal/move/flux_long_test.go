// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/source"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

// The authors of flux moved GitRepository from v1beta2 to v1 by hand; the old version imports the new one. A plan must
// put the declarations into the same files. The exceptions are changes that the authors made in the same release.
func TestDeclarationsOfFluxLandWhereItsAuthorsPutThem(t *testing.T) {
	changedByHand := map[string]string{ // file and name → what the authors did in the same release
		"artifact_types.go Artifact.HasDigest":         "added, in the place of HasChecksum",
		"artifact_types.go Artifact.HasChecksum":       "removed, with the field Checksum",
		"artifact_types.go TransformLegacyRevision":    "not taken along: revisions in the old form do not occur at v1",
		"artifact_types.go determineSHAType":           "serves TransformLegacyRevision only",
		"artifact_types.go isAlphaNumHex":              "serves TransformLegacyRevision only",
		"gitrepository_types.go GoGitImplementation":   "removed, with the field GitImplementation",
		"gitrepository_types.go LibGit2Implementation": "removed, with the field GitImplementation",
	}
	dir := fixture.Folder(t)
	const module = "github.com/fluxcd/source-controller/api"
	if err := tree.Copy(download(t, module+"@v0.36.1"), dir); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "git", "init", "-q")
	fixture.Commit(t, dir, "before")
	outcome := checkOutcome(t, dir, request.Request{
		Kinds: []string{"GitRepository"}, From: "source.toolkit.fluxcd.io/v1beta2",
		To: "source.toolkit.fluxcd.io/v1", Storage: request.StorageNew,
		Shared: request.SharedNewest, Old: request.OldKeep, Unexported: request.UnexportedInternal,
		Consumers: []string{request.ConsumersAll}, WithoutCRDs: true,
	})
	if err := outcome.write(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	fixture.Run(t, dir, "go", "vet", "./...")
	fixture.Run(t, dir, "go", "test", "./...") // with the test of Artifact, which has followed it

	got, want := declared(t, filepath.Join(dir, "v1")), declared(t, filepath.Join(download(t, module+"@v1.0.0"), "v1"))
	for name := range maps.Keys(got) {
		if !want[name] && changedByHand[name] == "" {
			t.Errorf("%s: the authors do not have it there", name)
		}
	}
	for name := range maps.Keys(want) {
		if !got[name] && changedByHand[name] == "" {
			t.Errorf("%s: only the authors have it there", name)
		}
	}
	for name := range changedByHand {
		if got[name] == want[name] {
			t.Errorf("%s is no difference", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "v1", "artifact_types_test.go")); err != nil {
		t.Error(err)
	}
}

// download is the folder of a module in the cache.
func download(t *testing.T, module string) string {
	t.Helper()
	var downloaded struct{ Dir string }
	answer := fixture.Run(t, ".", "go", "mod", "download", "-json", module)
	if err := json.Unmarshal([]byte(answer), &downloaded); err != nil {
		t.Fatal(err)
	}
	return downloaded.Dir
}

// declared lists what a package declares, each with its file.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == project.DeepCopyFile {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			for _, one := range declaredBy(decl) {
				found[filepath.Base(name)+" "+one] = true
			}
		}
	}
	return found
}

func declaredBy(decl ast.Decl) []string {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			return []string{decl.Name.Name}
		}
		of := decl.Recv.List[0].Type
		if pointer, ok := of.(*ast.StarExpr); ok {
			of = pointer.X
		}
		return []string{of.(*ast.Ident).Name + "." + decl.Name.Name}
	case *ast.GenDecl:
		var names []string
		for _, spec := range decl.Specs {
			names = slices.Concat(names, source.NamesOf(spec))
		}
		return names
	}
	return nil
}
