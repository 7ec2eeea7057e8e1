// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// pairs are the manifests of testdata/check: what a server has, and what it is to get.
func pairs(t *testing.T) map[string][2]string {
	t.Helper()
	all := manifests(t, "check/*.yaml")
	byName := map[string][2]string{}
	for name, text := range all {
		if pair, ok := strings.CutSuffix(name, ".old"); ok {
			byName[pair] = [2]string{text, all[pair+".new"]}
		}
	}
	return byName
}

// verdicts are those of create, update, compatible and lossless.
type verdicts [4]Verdict

// expected says of each pair what is right; the API server's own answers are compared in
// TestVerdictsAreThoseOfARealServer.
var expected = map[string]verdicts{
	"same":                               {Yes, Yes, Yes, NotAsked},
	"version-added":                      {Yes, Yes, Yes, Yes},
	"two-storage-versions":               {No, No, Yes, Yes},
	"no-storage-version":                 {No, No, Yes, NotAsked},
	"stored-version-dropped":             {Yes, No, No, NotAsked},
	"pruned-version-dropped":             {Yes, Yes, Yes, NotAsked},
	"served-version-dropped":             {Yes, Yes, No, NotAsked},
	"version-not-served":                 {Yes, Yes, No, Yes},
	"non-structural":                     {No, No, No, NotAsked},
	"webhook-preserving":                 {No, No, Yes, NotAsked},
	"webhook":                            {Yes, Yes, No, NotAsked},
	"webhook-without-reviews":            {No, No, Yes, NotAsked},
	"bad-ca-bundle":                      {Yes, No, Yes, NotAsked},
	"identical-schemas-v1beta1":          {No, No, Yes, Yes},
	"valid-in-v1beta1":                   {No, No, Yes, NotAsked},
	"from-v1beta1":                       {Yes, Yes, No, NotAsked},
	"from-v1beta1-kept":                  {Yes, Yes, Yes, NotAsked},
	"kept-field-gets-a-schema":           {Yes, Yes, No, NotAsked},
	"field-renamed-conversion-none":      {Yes, Yes, Yes, No},
	"constraints-differ-conversion-none": {Yes, Yes, Yes, Yes},
	"field-required":                     {Yes, Yes, No, NotAsked},
	"field-removed":                      {Yes, Yes, No, NotAsked},
	"kept-fields-of-a-stored-version":    {Yes, Yes, No, No},
	"type-changed":                       {Yes, Yes, No, NotAsked},
	"enum-narrowed":                      {Yes, Yes, No, NotAsked},
	"pattern-added":                      {Yes, Yes, No, NotAsked},
	"documented":                         {Yes, Yes, Yes, NotAsked},
	"scope-changed":                      {Yes, No, No, NotAsked},
	"kind-changed":                       {Yes, No, No, NotAsked},
	"default-of-wrong-type":              {No, No, No, NotAsked},
	"default-added":                      {Yes, Yes, No, NotAsked},
	"bad-rule":                           {No, No, No, NotAsked},
	"wrong-name":                         {No, Yes, Yes, NotAsked},
	"not-approved":                       {No, Yes, Yes, NotAsked},
	"unknown-field":                      {Yes, Yes, Yes, NotAsked},
	"bad-version-name":                   {No, No, Yes, Yes},
	"status-columns":                     {No, No, Yes, NotAsked},
}

func parse(t *testing.T, name, text string) *CRD {
	t.Helper()
	d, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestVerdictsOfEveryPairAreAsExpected(t *testing.T) {
	all := pairs(t)
	if have, want := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(expected)); !slices.Equal(have, want) {
		t.Fatalf("testdata/check has %q, and verdicts are expected of %q", have, want)
	}
	for name, pair := range all {
		t.Run(name, func(t *testing.T) {
			comparisons, err := Check(t.Context(), []*CRD{parse(t, "old", pair[0])},
				[]*CRD{parse(t, "new", pair[1])})
			if err != nil {
				t.Fatal(err)
			}
			if len(comparisons) != 1 {
				t.Fatalf("%d comparisons, want 1", len(comparisons))
			}
			c := comparisons[0]
			if got := (verdicts{c.Create.Verdict, c.Update.Verdict, c.Compatible.Verdict,
				c.Lossless.Verdict}); got != expected[name] {
				t.Errorf("create, update, compatible, lossless:\n got %q\nwant %q\n%+v", got, expected[name], c)
			}
		})
	}
}

func TestCRDsThatComeAndGoAreJudgedToo(t *testing.T) {
	widgets := parse(t, "widgets", pairs(t)["same"][0])
	gone, err := Check(t.Context(), []*CRD{widgets}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(gone) != 1 || gone[0].OK() || gone[0].Compatible.Verdict != No {
		t.Errorf("a CRD that is gone: %+v", gone)
	}
	fresh, err := Check(t.Context(), nil, []*CRD{widgets})
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh) != 1 || !fresh[0].OK() || fresh[0].Update.Verdict != NotAsked {
		t.Errorf("a new CRD: %+v", fresh)
	}
}

func TestReasonsDoNotDependOnChance(t *testing.T) {
	pair := pairs(t)["field-removed"]
	renamed := strings.ReplaceAll(pair[1], "mode", "manner") + "            required: [items, manner, more, most]\n"
	var first []string
	for range 20 {
		reasons, err := incompatibilities(parse(t, "old", pair[0]), parse(t, "new", renamed))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = reasons
		}
		if !slices.Equal(first, reasons) {
			t.Fatalf("reasons differ:\n%q\n%q", first, reasons)
		}
	}
}
