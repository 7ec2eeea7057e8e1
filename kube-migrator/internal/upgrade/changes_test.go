// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// madeUp are the tables of releases that never were.
func madeUp(t *testing.T, texts map[string]string) map[string]Table {
	t.Helper()
	all := map[string]Table{}
	for minor, text := range texts {
		table, err := ParseTable([]byte(tableHead + "v" + minor + ".0 can\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		all[minor] = table
	}
	return all
}

func TestChangesAreComparedWithTheReleaseBefore(t *testing.T) {
	all := madeUp(t, map[string]string{
		"1.8": "slices.d.io Slice d.io/v1beta1 d.io/v1\nclaims.r.io Claim r.io/v1alpha2\npods Pod v1\nevents Event " +
			"v1 e.io/v1beta1\n",
		// Both the storage version and what can be decoded changes; claims and pods stay, new is new.
		"1.9": "slices.d.io Slice d.io/v1 d.io/v1beta1\nclaims.r.io Claim r.io/v1alpha2\npods Pod v1\nevents Event " +
			"v1 e.io/v1beta1\nnew.r.io New r.io/v1alpha1\n",
		// 1.10 comes after 1.9.
		"1.10": "slices.d.io Slice d.io/v1\nclaims.r.io Claim r.io/v1beta1 r.io/v1alpha3\npods Pod v1\nevents Event " +
			"e.io/v1 v1\n",
		"1.11": "slices.d.io Slice d.io/v1\npods Pod v1\nevents Event e.io/v1 v1\n",
	})
	gone := []Change{
		{Release: "1.9", Since: "1.8", Resource: "slices.d.io", Before: "d.io/v1beta1", After: "d.io/v1"},
		{Release: "1.10", Since: "1.9", Resource: "claims.r.io", Before: "r.io/v1alpha2", After: "r.io/v1beta1",
			Lost: []string{"r.io/v1alpha2"}},
		{Release: "1.10", Since: "1.9", Resource: "events", Before: "v1", After: "e.io/v1",
			Lost: []string{"e.io/v1beta1"}},
		{Release: "1.10", Since: "1.9", Resource: "new.r.io", Before: "r.io/v1alpha1", Lost: []string{"r.io/v1alpha1"}},
		{Release: "1.10", Since: "1.9", Resource: "slices.d.io", Before: "d.io/v1", After: "d.io/v1",
			Lost: []string{"d.io/v1beta1"}},
		{Release: "1.11", Since: "1.10", Resource: "claims.r.io", Before: "r.io/v1beta1",
			Lost: []string{"r.io/v1beta1", "r.io/v1alpha3"}},
	}
	for _, test := range []struct {
		target string
		want   []Change
	}{{"1.11", gone}, {"1.10", gone[:5]}, {"1.9", gone[:1]}, {"1.8", nil}} {
		if diff := cmp.Diff(test.want, changes(all, test.target)); diff != "" {
			t.Errorf("changes up to %s (-want +got):\n%s", test.target, diff)
		}
	}
}

func TestWhereATableIsMissingChangesAreComparedWithTheOneBeforeIt(t *testing.T) {
	all := madeUp(t, map[string]string{"1.8": "slices.d.io Slice d.io/v1beta1 d.io/v1\n",
		"1.10": "slices.d.io Slice d.io/v1\n"})
	want := []Change{{Release: "1.10", Since: "1.8", Resource: "slices.d.io", Before: "d.io/v1beta1", After: "d.io/v1",
		Lost: []string{"d.io/v1beta1"}}}
	if diff := cmp.Diff(want, changes(all, "1.10")); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestTheKnownReleasesAreNamedAsARangeWhereNoneIsMissing(t *testing.T) {
	for want, known := range map[string][]string{
		"1.9 to 1.11": {"1.9", "1.10", "1.11"}, "1.9, 1.11": {"1.9", "1.11"}, "1.9": {"1.9"},
		"1.9, 1.11 to 1.13": {"1.9", "1.11", "1.12", "1.13"}, "1.9, 1.10": {"1.9", "1.10"},
	} {
		if got := ranges(known); got != want {
			t.Errorf("%v is named %q, want %q", known, got, want)
		}
	}
}
