// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The chart of a release differs from the folder in two things: it has the release's version, and its image by default.
func TestTheChartOfAReleaseNeedsNoImage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	program := filepath.Join(folder, "kube-migrator")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	output := t.TempDir()
	pack := exec.CommandContext(t.Context(), "go", "-C", "../../../tools", "run", "./dist", "--version", "v0.1.0", "--image", image,
		"--root", "..", "--output", output, "--url", "https://example.com", "linux/amd64="+folder)
	if out, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("pack: %v\n%s", err, out)
	}
	archive := filepath.Join(output, "kube-migrator-0.1.0.tgz")
	if _, problems, err := helm(t, "lint", archive, "--strict"); err != nil {
		t.Errorf("lint: %v\n%s", err, problems)
	}
	got, problems, err := helm(t, "template", "kube-migrator", archive, "--namespace", "kube-migrator")
	if err != nil {
		t.Fatalf("template: %v\n%s", err, problems)
	}
	want, problems, err := template(t, "kube-migrator", "image: "+image)
	if err != nil {
		t.Fatalf("template of the folder: %v\n%s", err, problems)
	}
	if diff := cmp.Diff(byName(t, want), byName(t, got)); diff != "" {
		t.Errorf("the chart of the release renders something else (-folder +release):\n%s", diff)
	}
}
