// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// After a migration both versions have the same fields, however the old one keeps its types.
func TestTheVersionsOfAKindThatMovedAreConvertedAutomatically(t *testing.T) {
	t.Parallel()
	for _, old := range []string{"keep", "wrap", "alias"} {
		t.Run(old, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(guide)); err != nil {
				t.Fatal(err)
			}
			plan := dir + "/plan.yaml"
			for _, args := range [][]string{
				{"plan", "-C", dir, "--kind", "CatalogSourceConfig", "--from", "operators.example.com/v1", "--to",
					"operators.example.com/v2", "--old", old, "--out", plan},
				{"apply", "-C", dir, "--allow-dirty", plan},
				{"convert", "scaffold", "-C", dir, "--kind", "CatalogSourceConfig"},
			} {
				out, complaint, code := call(t, args...)
				if code != 0 || args[0] == "convert" && (!strings.Contains(out, "0 fields differ") ||
					!strings.Contains(complaint, "strategy None")) {
					t.Fatalf("%v: exit code %d: %s%s", args, code, out, complaint)
				}
			}
			for _, args := range [][]string{{"vet", "./..."}, {"test", "-v", "./pkg/apis/operators/v1"}} {
				command := exec.Command("go", args...)
				command.Dir = dir
				out, err := command.CombinedOutput()
				if err != nil || args[0] == "test" && !strings.Contains(string(out),
					"--- PASS: TestCatalogSourceConfigToV2AndBack") {
					t.Errorf("%v: %v\n%s", args, err, out)
				}
			}
		})
	}
}
