// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
	"github.com/kube-migrator/kube-migrator/internal/golden"
)

func TestTheConversionOfAKindIsShownAndWritten(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/conversion")); err != nil {
		t.Fatal(err)
	}
	const note = "note: the project is not one of kubebuilder's, so only you know where this belongs: set spec.conversion of the " +
		"CRD of Widget to strategy Webhook, with the path /convert and a CA bundle; add every version to the manager's scheme; " +
		"call ctrl.NewWebhookManagedBy for Widget of widgets.example.com/v2 before the manager starts\n"
	patch, complaint, code := call(t, "convert", "scaffold", "-C", dir, "--kind", "Widget", "--diff")
	if code != 0 || complaint != note || !strings.Contains(patch, "+++ b/api/v1/widget_conversion.go") {
		t.Fatalf("diff: exit code %d: %s%s", code, patch, complaint)
	}
	if _, err := os.Stat(filepath.Join(dir, "api/internal")); err == nil {
		t.Error("--diff has written something")
	}
	out, complaint, code := call(t, "convert", "scaffold", "-C", dir, "--kind", "Widget")
	if code != 0 || complaint != note+"Next: go test ./api/v1\nNext: go test ./api/v1beta2\n" {
		t.Fatalf("exit code %d: %s", code, complaint)
	}
	golden.Compare(t, "testdata/convert.txt", out)

	other := t.TempDir()
	command := exec.Command("git", "apply", "-")
	command.Dir, command.Stdin = other, strings.NewReader(patch)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"api/v2/widget_conversion.go", "api/v1/widget_conversion_test.go",
		"api/internal/preserve/preserve.go"} {
		applied, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		if written, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(written) != string(applied) {
			t.Errorf("%s is not what git apply makes of the patch: %v", name, err)
		}
	}

	out, complaint, code = call(t, "convert", "scaffold", "-C", dir, "--kind", "Widget", "-o", "json")
	var plan struct {
		Hub    string
		Spokes []struct{ Version, Skipped string }
		Files  []string
	}
	if err := json.Unmarshal([]byte(out), &plan); err != nil || code != 0 || plan.Hub != "v2" ||
		len(plan.Spokes) != 2 || plan.Spokes[0].Skipped == "" || plan.Files == nil || len(plan.Files) != 0 {
		t.Errorf("again: exit code %d, %v: %s%s", code, err, out, complaint)
	}
}

func TestAConversionThatDoesNotCompileCanBeLookedAt(t *testing.T) {
	t.Parallel()
	fixture.NeedsGo(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/conversion")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "api/v1/clash_test.go"),
		[]byte("package v1\n\nvar widgetRounds = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	patch, complaint, code := call(t, "convert", "scaffold", "-C", dir, "--kind", "Widget",
		"--preserve=false", "--diff")
	if code != 1 || !strings.Contains(patch, "+const widgetRounds = 300") ||
		!strings.Contains(complaint, "widgetRounds redeclared") ||
		!strings.HasSuffix(complaint, "\nTry: api-migrator convert scaffold --kind Widget --preserve=false --diff\n") {
		t.Errorf("exit code %d: %s%s", code, complaint, patch)
	}
}
