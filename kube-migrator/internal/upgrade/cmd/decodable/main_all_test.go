// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// The binaries of these releases are built for other tests too. The tag "long" adds the older releases.
func TestTheTablesAreWhatRealServersSayOfThemselves(t *testing.T) {
	all := testbed.Releases()
	for _, release := range all[len(all)-2:] {
		t.Run(string(release), func(t *testing.T) { compare(t, release) })
	}
}

// compare compares a release's table with what its API server says.
func compare(t *testing.T, release testbed.Release) {
	t.Helper()
	got, err := read(t.Context(), testbed.New(t, testbed.Options{Release: release, Flags: flags}))
	if err != nil {
		t.Fatal(err)
	}
	want, err := upgrade.Files.ReadFile("releases/" + fileOf(release))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("table (-checked in +real), `make decodable` writes it again:\n%s", diff)
	}
}
