// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePageHasEveryKindAndTheFieldsBelowListsAndMaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.md")
	if err := write(path); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n## StorageState\n", "\n## StorageVersion\n", "\n## StorageVersionMigration\n",
		"`storageversionmigrations.migration.k8s.io/v1alpha1`, scope Cluster, short names `svmig`.\n",
		"\n| `spec.pace.maxInFlight` | integer | ", "\n| `status.conditions` | list of objects | ",
		"\n| `status.conditions[].lastTransitionTime` | time | ",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(string(page), "`metadata") {
		t.Error("the page describes fields that every object has")
	}
}
