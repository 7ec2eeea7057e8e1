// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

func TestThePageHasASectionForEachReleaseAndIsCurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "releases.md")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, release := range upgrade.Known()[1:] {
		if strings.Count(page, "\n## "+release+"\n") != 1 {
			t.Errorf("the page does not have one section %s", release)
		}
	}
	for _, want := range []string{
		"\n| horizontalpodautoscalers.autoscaling | v2 | v2beta2, v2beta1 |\n",
		"\n| resource | stored as in 1.35 → 1.36 | lost |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	checkedIn, err := os.ReadFile("../../../../../docs/releases.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(checkedIn), page); diff != "" {
		t.Errorf("docs/releases.md is not current, `make generate` writes it (-checked in +new):\n%s", diff)
	}
}
