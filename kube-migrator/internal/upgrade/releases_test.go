// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestReleasesAreFoundHoweverTheyAreWritten(t *testing.T) {
	if diff := cmp.Diff([]string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37"}, Known()); diff != "" {
		t.Errorf("known releases (-want +got):\n%s", diff)
	}
	for _, test := range []struct {
		release, minor string
		known, bad     bool
	}{
		{"1.36", "1.36", true, false}, {"v1.36", "1.36", true, false}, {"v1.36.3", "1.36", true, false},
		{"1.37.0-rc.1+k3s1", "1.37", true, false},
		{"1.30.14", "1.30", true, false}, {"1.29", "1.29", false, false}, {"2.0", "2.0", false, false},
		{"1.3", "1.3", false, false}, {"1", "", false, true}, {"newest", "", false, true}, {"", "", false, true},
		{"1.36x", "", false, true},
	} {
		table, minor, known, err := ReleaseTable(test.release)
		if minor != test.minor || known != test.known || (err != nil) != test.bad ||
			known != (len(table.Decodable) > 50) {
			t.Errorf("%q: %q, %t, %v, %d resources", test.release, minor, known, err, len(table.Decodable))
		}
	}
}

func TestATableIsWrittenAsItIsRead(t *testing.T) {
	for _, release := range Known() {
		want, err := Files.ReadFile("releases/v" + release + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		table, err := ParseTable(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(table.Bytes())); diff != "" {
			t.Errorf("table of %s (-want +got):\n%s", release, diff)
		}
	}
	for name, bad := range map[string]string{
		"a line without a version": tableHead + "v1 can\npods Pod\n", "no resource": tableHead + "v1 can\n",
		"no release": "pods Pod v1\n", "a version that is none": tableHead + "v1 can\npods Pod a/b/c\n",
	} {
		if _, err := ParseTable([]byte(bad)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestOfSeveralServersWhatAllCanDecodeCounts(t *testing.T) {
	list := `{"items":[
		{"metadata":{"name":"apps.deployments"},"status":{"storageVersions":[
			{"apiServerID":"a","encodingVersion":"apps/v1beta1","decodableVersions":["apps/v1","apps/v1beta1","apps/v1beta2"]},
			{"apiServerID":"b","encodingVersion":"apps/v1","decodableVersions":["apps/v1beta1","apps/v1"]}]}},
		{"metadata":{"name":"core.events"},"status":{"storageVersions":[{"encodingVersion":"v1","decodableVersions":["events.k8s.io/v1","v1"]}]}},
		{"metadata":{"name":"core.unnamed"},"status":{"storageVersions":[{"encodingVersion":"v1","decodableVersions":["v1"]}]}},
		{"metadata":{"name":"core.silent"},"status":{}}]}`
	events, deployments := schema.GroupResource{Resource: "events"},
		schema.GroupResource{Group: "apps", Resource: "deployments"}
	kinds := map[schema.GroupResource]string{deployments: "Deployment", events: "Event", {Resource: "silent"}: "Silent"}
	got, err := NewTable("v9", []byte(list), kinds)
	want := Table{Release: "v9", Decodable: map[schema.GroupResource]Decodable{
		deployments: {Kind: "Deployment", Versions: []schema.GroupVersion{{Group: "apps", Version: "v1beta1"},
			{Group: "apps", Version: "v1"}}},
		events: {Kind: "Event", Versions: []schema.GroupVersion{{Version: "v1"},
			{Group: "events.k8s.io", Version: "v1"}}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, table (-want +got):\n%s", err, diff)
	}
}
