// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
)

const (
	oldVersion = "demo.example.com/v1"
	newVersion = "demo.example.com/v2"
)

// entry is one as "manager operation version subresource fields"; "-" is empty.
func entry(t interface{ Fatalf(string, ...any) }, words string) metav1.ManagedFieldsEntry {
	w := strings.Fields(words)
	if len(w) != 5 {
		t.Fatalf("entry %q", words)
	}
	blank := func(s string) string { return strings.TrimPrefix(s, "-") }
	e := metav1.ManagedFieldsEntry{
		Manager: w[0], Operation: metav1.ManagedFieldsOperationType(w[1]), APIVersion: "demo.example.com/" + w[2],
		Subresource: blank(w[3]), FieldsType: "FieldsV1",
	}
	if w[4] != "-" {
		e.FieldsV1 = metav1.NewFieldsV1(w[4])
	}
	return e
}

func show(entries []metav1.ManagedFieldsEntry) []string {
	shown := []string{}
	for _, e := range entries {
		fields := "-"
		if e.FieldsV1 != nil {
			fields = e.FieldsV1.GetRawString()
		}
		shown = append(shown, fmt.Sprintf("%s %s %s -%s %s", e.Manager, e.Operation,
			strings.TrimPrefix(e.APIVersion, "demo.example.com/"), e.Subresource, fields))
	}
	return shown
}

func TestEntriesMoveWithTheirOwners(t *testing.T) {
	for name, test := range map[string]struct{ entries, want []string }{
		"entries of other versions stay as they are": {[]string{`a Apply v2 - {"f:spec":{}}`}, nil},
		"an entry is renamed": {[]string{`a Apply v1 - {"f:spec":{}}`},
			[]string{`a Apply v2 - {"f:spec":{}}`}},
		"other managers keep theirs, in their order": {
			[]string{`b Update v2 - {"f:x":{}}`, `a Apply v1 - {"f:spec":{}}`},
			[]string{`b Update v2 - {"f:x":{}}`, `a Apply v2 - {"f:spec":{}}`},
		},
		"two entries of one manager become one that owns both": {
			[]string{`a Update v1 - {"f:spec":{"f:color":{}}}`, `a Update v2 - {"f:spec":{"f:size":{}}}`},
			[]string{`a Update v2 - {"f:spec":{"f:color":{},"f:size":{}}}`},
		},
		"applying and updating are two": {[]string{`a Apply v1 - {"f:x":{}}`, `a Update v2 - {"f:y":{}}`},
			[]string{`a Apply v2 - {"f:x":{}}`, `a Update v2 - {"f:y":{}}`}},
		"a subresource is another": {[]string{`a Update v1 -status {"f:x":{}}`, `a Update v2 - {"f:y":{}}`},
			[]string{`a Update v2 -status {"f:x":{}}`, `a Update v2 - {"f:y":{}}`}},
		"an entry that owns nothing goes": {[]string{`a Update v1 - {}`, `b Update v2 - {"f:y":{}}`},
			[]string{`b Update v2 - {"f:y":{}}`}},
		"where none is left one is seeded": {[]string{`a Update v1 - {}`, `b Apply v1 - -`},
			[]string{`kube-migrator Update v2 - {"f:metadata":{"f:annotations":{"f:migration.k8s.io/retired":{}}}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []metav1.ManagedFieldsEntry
			for _, words := range test.entries {
				entries = append(entries, entry(t, words))
			}
			moved, changed, err := retire.Moved(entries, oldVersion, newVersion)
			want := test.want
			if want == nil {
				want = test.entries
			}
			if diff := cmp.Diff(want, show(moved)); err != nil || changed != (test.want != nil) || diff != "" {
				t.Errorf("changed %v, %v (-want +got):\n%s", changed, err, diff)
			}
		})
	}
}

func TestAJoinedEntryHasTheLaterTime(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	a, b := entry(t, `a Update v1 - {"f:x":{}}`), entry(t, `a Update v2 - {"f:y":{}}`)
	a.Time, b.Time = &late, &early
	moved, _, err := retire.Moved([]metav1.ManagedFieldsEntry{a, b}, oldVersion, newVersion)
	if err != nil || len(moved) != 1 || !moved[0].Time.Equal(&late) {
		t.Errorf("%v, %v, want one entry of %v", moved, err, late)
	}
}

func TestOnlyReferencesToTheKindAtTheVersionMove(t *testing.T) {
	yes := true
	reference := func(apiVersion, kind, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "w", UID: types.UID(uid), Controller: &yes,
			BlockOwnerDeletion: &yes}
	}
	given := []metav1.OwnerReference{reference(oldVersion, "Widget", "a"), reference(oldVersion, "Gadget", "b"),
		reference(newVersion, "Widget", "c"), reference("other.example.com/v1", "Widget", "d"),
		reference(oldVersion, "Widget", "e")}
	want := slices.Clone(given)
	want[0].APIVersion, want[4].APIVersion = newVersion, newVersion
	before := slices.Clone(given)
	pointed, changed := retire.Pointed(given, "Widget", oldVersion, newVersion)
	if diff := cmp.Diff(want, pointed); diff != "" || !changed {
		t.Errorf("changed %v (-want +got):\n%s", changed, diff)
	}
	if diff := cmp.Diff(before, given); diff != "" {
		t.Errorf("what was given has changed:\n%s", diff)
	}
	if _, changed := retire.Pointed(want, "Widget", oldVersion, newVersion); changed {
		t.Error("the second time, there is something to change")
	}
}

func TestFieldsThatAWriteHasTakenGoBackToTheirManagers(t *testing.T) {
	const a, b = `"k:{\"uid\":\"a\"}":{}`, `"k:{\"uid\":\"b\"}":{}`
	owns := func(keys string) string { return `{"f:metadata":{"f:ownerReferences":{` + keys + `}}}` }
	for name, test := range map[string]struct{ before, live, want []string }{
		"nothing was taken": {[]string{"op Update v1 - " + owns(a)}, []string{"op Update v1 - " + owns(a)}, nil},
		"one that another manager has taken meanwhile stays there": {
			[]string{"op Update v1 - " + owns(a)}, []string{"other Update v1 - " + owns(a)}, nil,
		},
		"an entry gets it back": {
			[]string{"op Apply v1 - " + owns(`".":{},`+a)},
			[]string{"op Apply v1 - " + owns(`".":{}`), "kube-migrator Update v1 - " + owns(a)},
			[]string{"op Apply v1 - " + owns(`".":{},`+a)},
		},
		"an entry that had nothing else is there again": {
			[]string{"op Apply v1 - " + owns(a)},
			[]string{"kube-migrator Update v1 - " + owns(a)},
			[]string{"op Apply v1 - " + owns(a)},
		},
		"each of two owners": {
			[]string{"op Apply v1 - " + owns(a), "other Update v1 - " + owns(a+","+b)},
			[]string{"other Update v1 - " + owns(b), "kube-migrator Update v1 - " + owns(a)},
			[]string{"other Update v1 - " + owns(a+","+b), "op Apply v1 - " + owns(a)},
		},
		"what was our own stays": {
			[]string{"op Apply v1 - " + owns(a), "kube-migrator Update v1 - " + owns(b)},
			[]string{"kube-migrator Update v1 - " + owns(a+","+b)},
			[]string{"kube-migrator Update v1 - " + owns(b), "op Apply v1 - " + owns(a)},
		},
		"what was our own and another's stays with both": {
			[]string{"op Apply v1 - " + owns(a), "kube-migrator Update v1 - " + owns(a)},
			[]string{"op Apply v1 - " + owns(a), "kube-migrator Update v1 - " + owns(a)}, nil,
		},
		"what was our own stays when another loses it": {
			[]string{"op Apply v1 - " + owns(a+","+b), "kube-migrator Update v1 - " + owns(a)},
			[]string{"kube-migrator Update v1 - " + owns(a+","+b)},
			[]string{"kube-migrator Update v1 - " + owns(a), "op Apply v1 - " + owns(b)},
		},
		"what no one owned is ours": {nil, []string{"kube-migrator Update v1 - " + owns(a)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(words []string) (entries []metav1.ManagedFieldsEntry) {
				for _, w := range words {
					entries = append(entries, entry(t, w))
				}
				return entries
			}
			live := read(test.live)
			entries, changed, err := retire.Returned(read(test.before), live)
			want := test.want
			if want == nil {
				want = test.live
			}
			if diff := cmp.Diff(want, show(entries)); err != nil || changed != (test.want != nil) || diff != "" {
				t.Errorf("changed %v, %v (-want +got):\n%s", changed, err, diff)
			}
			if diff := cmp.Diff(test.live, show(live)); diff != "" {
				t.Errorf("what was given has changed:\n%s", diff)
			}
		})
	}
}

func TestWhateverTheEntriesEachManagerOwnsWhatItOwned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []metav1.ManagedFieldsEntry
		for range rapid.IntRange(1, 8).Draw(t, "entries") {
			fields := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4,
				rapid.ID[string]).Draw(t, "fields")
			e := entry(t, fmt.Sprintf(`%s %s %s -%s {"f:%s":{}}`,
				rapid.SampledFrom([]string{"kubectl", "helm"}).Draw(t, "manager"),
				rapid.SampledFrom([]string{"Apply", "Update"}).Draw(t, "operation"),
				rapid.SampledFrom([]string{"v1", "v2", "v3"}).Draw(t, "version"),
				rapid.SampledFrom([]string{"", "status"}).Draw(t, "subresource"), strings.Join(fields, `":{},"f:`)))
			entries = append(entries, e)
		}
		before := slices.Clone(entries)
		moved, _, err := retire.Moved(entries, oldVersion, newVersion)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(show(before), show(entries)); diff != "" {
			t.Fatalf("what was given has changed:\n%s", diff)
		}
		if slices.ContainsFunc(moved, func(e metav1.ManagedFieldsEntry) bool { return e.APIVersion == oldVersion }) {
			t.Fatalf("still named: %v", show(moved))
		}
		if diff := cmp.Diff(ownedBy(t, before), ownedBy(t, moved)); diff != "" {
			t.Fatalf("owners (-before +after):\n%s", diff)
		}
		if again, changed, err := retire.Moved(moved, oldVersion, newVersion); changed || err != nil ||
			len(again) != len(moved) {
			t.Fatalf("the second time: %v, %v, %v", show(again), changed, err)
		}
	})
}

// ownedBy is what each manager owns in v1 or v2 together, and in others.
func ownedBy(t *rapid.T, entries []metav1.ManagedFieldsEntry) map[string]string {
	sets := map[string]*fieldpath.Set{}
	for _, e := range entries {
		version := strings.NewReplacer(oldVersion, newVersion).Replace(e.APIVersion)
		key := strings.Join([]string{e.Manager, string(e.Operation), e.Subresource, version}, " ")
		var set fieldpath.Set
		if err := set.FromJSON(strings.NewReader(e.FieldsV1.GetRawString())); err != nil {
			t.Fatal(err)
		}
		if sets[key] == nil {
			sets[key] = &fieldpath.Set{}
		}
		sets[key] = sets[key].Union(&set)
	}
	owned := map[string]string{}
	for key, set := range sets {
		owned[key] = set.String()
	}
	return owned
}
