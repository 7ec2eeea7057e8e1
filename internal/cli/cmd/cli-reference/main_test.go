// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryCommandHasAPageAndOldPagesGo(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "kube-migrator-gone.md")
	if err := os.WriteFile(gone, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the page of a command that is gone is still there: %v", err)
	}
	for page, want := range map[string]string{
		"kube-migrator.md":          "Exit codes:",
		"kube-migrator-migrate.md":  "--max-in-flight",
		"api-migrator.md":           "Exit codes:",
		"api-migrator-crd-check.md": "Exit codes:",
	} {
		raw, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Error(err)
			continue
		}
		if !strings.Contains(string(raw), want) {
			t.Errorf("%s lacks %q:\n%s", page, want, raw)
		}
	}
}

func TestFlagsOfAllCommandsArePrintedOnceAndLinked(t *testing.T) {
	dir := t.TempDir()
	if err := write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "kube-migrator*.md"))
	if err != nil || len(pages) < 2 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	for _, path := range pages {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page := string(raw)
		if program := filepath.Base(path) == "kube-migrator.md"; strings.Contains(page, "--kubeconfig string") != program ||
			strings.Contains(page, "[kube-migrator](kube-migrator.md)") == program {
			t.Errorf("%s must have the flags of the connection (%t) or else a link to them:\n%s", path, program, page)
		}
	}
}
