// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const annotation = "preserved.example.com/v2"

type part struct {
	Name     string `json:"name"`
	Count    int64  `json:"count,omitempty"`
	Material string `json:"material,omitempty"` // what the other version lacks
}

type object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              spec `json:"spec"`
}

type spec struct {
	Size   int64             `json:"size,omitempty"`
	Mode   string            `json:"mode,omitempty"` // what the other version lacks
	Parts  []part            `json:"parts,omitempty"`
	ByName map[string]*part  `json:"byName,omitempty"`
	Extra  *part             `json:"extra,omitempty"` // what the other version lacks
	Labels map[string]string `json:"labels,omitempty"`
}

// there is what the other version makes of an object, in the same type: without the fields that it lacks.
func there(s spec) spec {
	s.Mode, s.Extra = "", nil
	s.Parts = append([]part(nil), s.Parts...)
	for i := range s.Parts {
		s.Parts[i].Material = ""
	}
	byName := map[string]*part{}
	for name, one := range s.ByName {
		byName[name] = &part{Name: one.Name, Count: one.Count}
	}
	s.ByName = byName
	return s
}

func TestWhatWasKeptComesBackWhereNothingHasChangedSince(t *testing.T) {
	t.Parallel()
	before := func() spec {
		return spec{
			Size: 1 << 60, Mode: "fast", Extra: &part{Name: "extra"},
			Parts:  []part{{"a", 1, "iron"}, {"b", 2, "wood"}, {"b", 2, "gold"}, {"c", 3, ""}},
			ByName: map[string]*part{"x.y": {"x", 1, "iron"}, "z": {"z", 2, ""}},
		}
	}
	for name, test := range map[string]struct {
		change func(*spec) // what a client of the other version does
		want   func(*spec) // how the outcome differs from what there was
	}{
		"nothing is changed": {func(*spec) {}, func(*spec) {}},
		"another field is changed": {func(s *spec) { s.Size = 7 },
			func(s *spec) { s.Size = 7 }},
		"elements change places": {func(s *spec) { s.Parts[0], s.Parts[3] = s.Parts[3], s.Parts[0] },
			func(s *spec) { s.Parts[0], s.Parts[3] = s.Parts[3], s.Parts[0] }},
		"an element goes": {func(s *spec) { s.Parts = s.Parts[1:] }, func(s *spec) { s.Parts = s.Parts[1:] }},
		"an element comes, which gets nothing of the others'": {func(s *spec) {
			s.Parts = append([]part{{Name: "new"}},
				s.Parts...)
		}, func(s *spec) { s.Parts = append([]part{{Name: "new"}}, s.Parts...) }},
		"one of two that look alike goes, and it is unknown which": {func(s *spec) {
			s.Parts = append(s.Parts[:1],
				s.Parts[2:]...)
		}, func(s *spec) { s.Parts = []part{s.Parts[0], {"b", 2, ""}, s.Parts[3]} }},
		"one comes that looks like two others": {func(s *spec) {
			s.Parts = append([]part{{"b", 2, ""}},
				s.Parts...)
		}, func(s *spec) { s.Parts = []part{{"b", 2, ""}, s.Parts[0], {"b", 2, ""}, {"b", 2, ""}, s.Parts[3]} }},
		"all elements go": {func(s *spec) { s.Parts = nil }, func(s *spec) { s.Parts = nil }},
		"an element is changed, and known by its key": {func(s *spec) { s.Parts[0].Count = 9 },
			func(s *spec) { s.Parts[0].Count = 9 }},
		"the key of an element is changed: it is another": {func(s *spec) { s.Parts[0].Name = "other" },
			func(s *spec) { s.Parts[0] = part{"other", 1, ""} }},
		"a value of a map is changed": {func(s *spec) { s.ByName["x.y"].Count = 9 },
			func(s *spec) { s.ByName["x.y"].Count = 9 }},
		"a value of a map goes, and does not come back": {func(s *spec) { delete(s.ByName, "x.y") },
			func(s *spec) { delete(s.ByName, "x.y") }},
		"a value of a map becomes null": {func(s *spec) { s.ByName["x.y"] = nil },
			func(s *spec) { s.ByName["x.y"] = nil }},
		"the field is set by the other version after all": {func(s *spec) { s.Mode = "slow" },
			func(s *spec) { s.Mode = "slow" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original := &object{Spec: before()}
			converted := &object{Spec: there(before())}
			converted.Annotations = map[string]string{"mine": "1"}
			if err := Save(annotation, original, &object{Spec: there(before())}, converted); err != nil {
				t.Fatal(err)
			}
			test.change(&converted.Spec)
			if err := Restore(annotation, Keys{"spec.parts": {"name"}}, converted); err != nil {
				t.Fatal(err)
			}
			want := before()
			test.want(&want)
			if diff := cmp.Diff(want, converted.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"mine": "1"}, converted.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnElementWithoutKeysCountsAsAnotherOneWhenItHasChanged(t *testing.T) {
	t.Parallel()
	original := &object{Spec: spec{Parts: []part{{"a", 1, "iron"}}}}
	converted := &object{Spec: there(original.Spec)}
	if err := Save(annotation, original, &object{Spec: there(original.Spec)}, converted); err != nil {
		t.Fatal(err)
	}
	converted.Spec.Parts[0].Count = 2
	if err := Restore(annotation, nil, converted); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]part{{"a", 2, ""}}, converted.Spec.Parts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnObjectThatLosesNothingGetsNoAnnotation(t *testing.T) {
	t.Parallel()
	original := &object{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: spec{Size: 1}}
	converted := &object{}
	if err := Save(annotation, original, &object{Spec: spec{Size: 1}}, converted); err != nil {
		t.Fatal(err)
	}
	if converted.Annotations != nil {
		t.Error(converted.Annotations)
	}
}

func TestWhatWasKeptBeforeIsNotPassedOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode string
		want map[string]string
	}{
		"where nothing differs": {"", map[string]string{"mine": "1"}},
		"where a field differs": {"fast", map[string]string{"mine": "1",
			annotation: `{"is":{"spec":{"mode":"fast"}},"seen":{"spec":{}}}`}},
	} {
		original := &object{Spec: spec{Size: 1, Mode: test.mode}}
		converted := &object{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotation: "stale",
			"mine": "1"}}}
		shared := converted.Annotations
		if err := Save(annotation, original, &object{Spec: spec{Size: 1}}, converted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, converted.Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if len(shared) != 2 || shared[annotation] != "stale" {
			t.Errorf("%s: the map that others may share is changed: %v", name, shared)
		}
	}
}

func TestOnlyWhatDiffersIsKept(t *testing.T) {
	t.Parallel()
	original := &object{Spec: spec{Size: 1, Mode: "fast", Labels: map[string]string{"secret": "long"}}}
	converted := &object{}
	if err := Save(annotation, original, &object{Spec: there(original.Spec)}, converted); err != nil {
		t.Fatal(err)
	}
	const want = `{"is":{"spec":{"mode":"fast"}},"seen":{"spec":{}}}`
	if got := converted.Annotations[annotation]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWhateverTheAnnotationSaysTheObjectStaysReadable(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		"", "null", "not JSON", "[]", `{"is":1}`, `{"is":{"spec":"text"},"seen":{"spec":{"size":1}}}`,
		`{"is":{"spec":{"size":"text"}},"seen":{"spec":{"size":1}}}`,
		`{"is":{"spec":{"parts":[1]}},"seen":{"spec":{"parts":[{"name":"a"}]}}}`,
		`{"is":{"spec":{"parts":[]}},"seen":{"spec":{"parts":[{"name":"b"},{"name":"a"}]}}}`,
		`{"is":{"metadata":{"name":"other"},"kind":"Other"},"seen":{"metadata":{"name":"a"}}}`,
	} {
		converted := &object{ObjectMeta: metav1.ObjectMeta{Name: "a",
			Annotations: map[string]string{annotation: content}}, Spec: spec{Size: 1, Parts: []part{{Name: "a"}}}}
		if err := Restore(annotation, nil, converted); err != nil {
			t.Errorf("%s: %v", content, err)
		}
		want := &object{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: spec{Size: 1, Parts: []part{{Name: "a"}}}}
		if diff := cmp.Diff(want, converted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", content, diff)
		}
	}
}

func TestKeysAreFoundBelowMapsAndElements(t *testing.T) {
	t.Parallel()
	keys := Keys{"spec.*.parts": {"name"}, "spec.parts[].inner": {"id"}, "spec.groups.*[].inner": {"no"}}
	for path, want := range map[string]string{
		"spec.a.parts": "name", "spec.parts[].inner": "id", "spec.groups.x[].inner": "no", "spec.parts": "",
		"spec.groups.x.inner": "", "status.a.parts": "",
	} {
		if got := strings.Join(keys.of(path), ","); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestKeysAreFoundBelowNamesWithDots(t *testing.T) {
	t.Parallel()
	mine := map[string]any{"groups": map[string]any{"example.com/a": []any{map[string]any{"name": "x", "count": 2}}}}
	seen := map[string]any{"groups": map[string]any{"example.com/a": []any{map[string]any{"name": "x", "count": 1}}}}
	is := map[string]any{"groups": map[string]any{"example.com/a": []any{map[string]any{"name": "x",
		"count": 1, "material": "iron"}}}}
	want := map[string]any{"groups": map[string]any{"example.com/a": []any{map[string]any{"name": "x",
		"count": 2, "material": "iron"}}}}
	if diff := cmp.Diff(want, merge(Keys{"groups.*": {"name"}}, "", mine, seen, is).(map[string]any)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumbersKeepEveryDigit(t *testing.T) {
	t.Parallel()
	var into map[string]any
	if err := decode([]byte(`{"n":9223372036854775807}`), &into); err != nil {
		t.Fatal(err)
	}
	if content, _ := json.Marshal(into); string(content) != `{"n":9223372036854775807}` {
		t.Errorf("%s", content)
	}
}
