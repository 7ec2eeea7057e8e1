// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/request"
)

func TestFilesThatAreLinksBlockThePlanAndAreNotWrittenThrough(t *testing.T) {
	t.Parallel()
	const controller, generated = "pkg/controller/operatorgroup/operatorgroup_controller.go", "pkg/apis/operators/v1/" +
		project.DeepCopyFile
	dir, elsewhere := fixture.Repository(t, "guide"), t.TempDir()
	for _, name := range []string{controller, generated} {
		other := filepath.Join(elsewhere, filepath.Base(name))
		if err := errors.Join(os.Rename(filepath.Join(dir, name), other),
			os.Symlink(other, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	before := fixture.Files(t, elsewhere)
	blocked := map[string]bool{}
	for _, blocker := range outlined(t, dir, guideRequest).Plan.Blockers {
		blocked[blocker.Where] = strings.Contains(blocker.Text, "is a symbolic link")
	}
	if !blocked[controller] || !blocked[generated] {
		t.Errorf("blocked: %v", blocked)
	}
	if diff := cmp.Diff(before, fixture.Files(t, elsewhere)); diff != "" {
		t.Errorf("the files behind the links have changed:\n%s", diff)
	}
}

func TestRemovingTheLastKindSaysWhatRemains(t *testing.T) {
	t.Parallel()
	asked := options{request.SharedNewest, request.OldRemove, request.UnexportedInternal}.of(guideRequest)
	asked.Kinds = []string{"CatalogSourceConfig", "OperatorGroup"}
	text := ""
	for _, finding := range outlined(t, fixture.Repository(t, "guide"), asked).Plan.Findings {
		text += finding.Where + ": " + finding.Text + "\n"
	}
	for _, want := range []string{
		"pkg/apis/operators/v1: no kind is left in operators.example.com/v1; what remains registers an empty " +
			"version: SchemeGroupVersion, SchemeBuilder\n",
		"deploy/crds/operators_v1_catalogsourceconfig_crd.yaml: controller-gen would drop version v1 of " +
			"CatalogSourceConfig",
		"deploy/crds/operators_v1_operatorgroup_crd.yaml: controller-gen would drop version v1 of OperatorGroup",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no finding %q in:\n%s", want, text)
		}
	}
}

func TestAPackageThatIsInTheWayBlocksThePlan(t *testing.T) {
	t.Parallel()
	dir := fixture.Repository(t, "kubebuilder")
	fixture.Write(t, dir, map[string]string{"api/v1beta2/names.go": "package v1beta2\n"})
	want := []string{"api/v1beta2: a package is there already, and declares no kind of cache.example.com/v1beta2. Remove it, " +
		"and the plan creates the version; if it is something else, move it to another folder first"}
	var got []string
	for _, blocker := range outlined(t, dir, memcachedRequest).Plan.Blockers {
		got = append(got, blocker.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blockers (-want +got):\n%s", diff)
	}
}
