// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package trial

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/cli"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// TestMain makes this test binary the program api-migrator where a trial runs it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "api-migrator" {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.Run(context.Background(), os.Args, streams))
	}
	os.Exit(fixture.RunTests(m))
}

// program is the path of this test binary under the name of api-migrator.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "api-migrator")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func try(t *testing.T, options Options) *Row {
	t.Helper()
	options.Binary, options.Work, options.TestTimeout, options.Log = program(t), fixture.Folder(t), time.Minute, t.Output()
	options.Kinds, options.From = "CatalogSourceConfig", "operators.example.com/v1"
	row, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func TestAProjectIsTriedInACopy(t *testing.T) {
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "guide")
	fixture.Write(t, dir, fixture.Archive(t, "testdata/project.txtar"))
	fixture.Write(t, dir, map[string]string{"vendor/modules.txt": "# k8s.io/api v0.0.0\n"}) // all that the proxy leaves of vendor
	before := fixture.Files(t, dir)
	row := try(t, Options{Dir: dir, To: "operators.example.com/v2", ByHand: "nothing"})
	if row.Plan.CPU <= 0 || row.Plan.PeakBytes <= 0 || row.Apply.CPU <= 0 || row.Apply.PeakBytes <= 0 {
		t.Errorf("plan took %+v, apply %+v", row.Plan, row.Apply)
	}
	const where = "github.com/test-org/test-operator/pkg/where"
	got := *row
	got.Plan, got.Apply, got.Findings = Usage{}, Usage{}, 0
	want := Row{
		Project: "github.com/test-org/test-operator", Origin: "no scaffold", Layout: "pkg/apis/GROUP/VERSION",
		Packages: 6, Affected: 5, Move: "CatalogSourceConfig operators.example.com/v1 → v2",
		TestsBefore: 4, TestsAfter: 3, ByHand: "nothing",
		Problems: []string{where + " TestTheKindIsInVersion1 fails, and passed before"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, fixture.Files(t, dir)); diff != "" {
		t.Errorf("the project has changed: %s", diff)
	}
}

func TestARefusedPlanIsTheProblem(t *testing.T) {
	fixture.NeedsGo(t)
	dir := fixture.Copy(t, "guide")
	row := try(t, Options{Dir: dir, To: "operators.example.com/v2", PlanArgs: []string{"--shared", "old", "--old", "wrap"}})
	if len(row.Problems) != 1 || !strings.HasPrefix(row.Problems[0], "blocker: ") || row.Blockers != 1 || row.Apply.CPU != 0 {
		t.Errorf("problems %q, apply %v", row.Problems, row.Apply)
	}
}
