// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// The watch of etcd is what the tests in this package believe. Each history goes wrong in one way, or in none.
func TestTheWatchOfEtcdFindsWhatIsWrong(t *testing.T) {
	type event struct{ key, value string }
	published := func(entries ...string) event {
		var list []string
		for _, e := range entries {
			id, version, _ := strings.Cut(e, "=")
			list = append(list, fmt.Sprintf(`{"apiServerID":%q,"encodingVersion":%q}`, id, group+"/"+version))
		}
		return event{published, `{"status":{"storageVersions":[` + strings.Join(list, ",") + `]}}`}
	}
	stored := func(name, by, version string) event {
		return event{gears.Prefix + "default/" + name,
			fmt.Sprintf(`{"apiVersion":%q,"kind":"Gear","storedBy":%q}`, group+"/"+version, by)}
	}
	deleted := func(name string) event { return event{gears.Prefix + "default/" + name, ""} }
	// later than what was written before by far, so that the record had to see it
	record := func(versions ...string) event {
		var hashes []string
		for _, v := range versions {
			if v != "Unknown" {
				v = gears.Hash(group + "/" + v)
			}
			hashes = append(hashes, fmt.Sprintf("%q", v))
		}
		return event{recorded, fmt.Sprintf(`{"metadata":{"name":%q},"status":{"lastHeartbeatTime":%q,`+
			`"persistedStorageVersionHashes":[%s]}}`, gearsName, time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
			strings.Join(hashes, ","))}
	}
	for name, test := range map[string]struct {
		silent  bool // the replicas do not publish
		history []event
		want    string // what the one problem says; empty: there is none
	}{
		"a write of what is published": {history: []event{published("a=v1"), stored("g", "a", "v1"), record("v1")}},
		"a write before anything is published": {
			history: []event{stored("g", "a", "v1"), published("a=v1")}, want: `a stored`},
		"a write of another version than the replica publishes": {
			history: []event{published("a=v1"), stored("g", "a", "v2")}, want: `as parts.example.com/v2 while it published`},
		"a write of a version that only another replica publishes": {
			history: []event{published("a=v1", "b=v2"), stored("g", "a", "v2")}, want: `a stored`},
		"a write after the entry was removed": {
			history: []event{published("a=v1"), published(), stored("g", "a", "v1")}, want: `a stored`},
		"a write after the object was deleted": {
			history: []event{published("a=v1"), {published().key, ""}, stored("g", "a", "v1")}, want: `a stored`},
		"any write of replicas that do not publish": {silent: true, history: []event{stored("g", "a", "v2")}},
		"a record without a version that is stored": {
			history: []event{published("a=v1"), stored("g", "a", "v1"), published("a=v2"), record("v2")},
			want:    "parts.example.com/v1"},
		"a record that lacks it and is Unknown": {
			history: []event{published("a=v1"), stored("g", "a", "v1"), published("a=v2"), record("v2", "Unknown")}},
		"a record without a version that is published": {
			history: []event{published("a=v1"), stored("g", "a", "v1"), record("v2")}},
		"a record without a version of which nothing is stored any more": {
			history: []event{published("a=v1"), stored("g", "a", "v1"), published("a=v2"), stored("g", "a", "v2"),
				record("v2")}},
		"a record without a version of which everything is deleted": {
			history: []event{published("a=v1"), stored("g", "a", "v1"), published("a=v2"), deleted("g"), record("v2")}},
		"a record that is untrue without publishing": {silent: true,
			history: []event{stored("g", "a", "v1"), record("v2")}, want: "parts.example.com/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watcher{publishing: !test.silent, truth: testbed.NewTruth(gears), stored: map[string]string{},
				entries: map[string]string{}, last: map[string]time.Time{}, writes: map[string]int{},
				writers: map[string]int{}, removed: map[string]int{}}
			for i, e := range test.history {
				w.note(e.key, []byte(e.value), int64(i))
			}
			switch {
			case test.want == "" && len(w.problems) > 0:
				t.Errorf("it finds %q", w.problems)
			case test.want != "" && (len(w.problems) != 1 || !strings.Contains(w.problems[0], test.want)):
				t.Errorf("it finds %q, want one problem with %q", w.problems, test.want)
			}
		})
	}
}
