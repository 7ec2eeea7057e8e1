// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package main

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

func TestTheTablesOfOlderReleasesAreWhatRealServersSayOfThemselves(t *testing.T) {
	all := testbed.Releases()
	for _, release := range all[:len(all)-2] {
		t.Run(string(release), func(t *testing.T) { compare(t, release) })
	}
}

// The tables are read from servers with every API and alpha feature enabled. A server without them stores nothing in
// another version.
func TestServersWithDefaultFlagsWriteTheVersionThatTheTablesName(t *testing.T) {
	for _, release := range testbed.Releases() {
		t.Run(string(release), func(t *testing.T) {
			client, err := apiserver.NewClient(testbed.New(t, testbed.Options{Release: release}).Config())
			if err != nil {
				t.Fatal(err)
			}
			known, err := inventory.Take(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			table, _, ok, err := upgrade.ReleaseTable(string(release))
			if !ok || err != nil {
				t.Fatalf("no table: %v", err)
			}
			compared := 0
			for _, r := range known.Resources {
				if r.StorageVersionHash == "" {
					continue
				}
				d, has := table.Decodable[r.GroupResource]
				if !has {
					t.Errorf("the table does not have %s", r.GroupResource)
					continue
				}
				compared++
				if written := d.Versions[0]; storageversion.Hash(written.WithKind(d.Kind)) != r.StorageVersionHash {
					t.Errorf("%s is not written as %s: its hash is %s", r.GroupResource, written, r.StorageVersionHash)
				}
			}
			if least := 40; compared < least {
				t.Errorf("%d resources were compared, want %d or more", compared, least)
			}
		})
	}
}
