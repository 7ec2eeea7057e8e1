// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryChangeOfAnObjectIsTold(t *testing.T) {
	object := func(manager string, generation int, color string) map[int]map[string]any {
		return map[int]map[string]any{3: {
			"metadata": map[string]any{"name": "a", "generation": generation, "managedFields": []any{manager}},
			"spec":     map[string]any{"color": color},
		}}
	}
	before := object("bench", 1, "red")
	for name, test := range map[string]struct {
		after map[int]map[string]any
		want  map[string]bool
	}{
		"nothing changed":        {object("bench", 1, "red"), checks(true, true, true)},
		"a manager was added":    {object("other", 1, "red"), checks(false, true, true)},
		"the generation rose":    {object("bench", 2, "red"), checks(true, false, true)},
		"the content is another": {object("bench", 1, "blue"), checks(true, true, false)},
	} {
		t.Run(name, func(t *testing.T) {
			got, examples := unchanged(before, test.after)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
			if differs := slices.Contains(slices.Collect(maps.Values(got)), false); differs != (len(examples) == 2) {
				t.Errorf("examples %q", examples)
			}
		})
	}
}

func checks(managedFields, generation, content bool) map[string]bool {
	return map[string]bool{managedFieldsStayed: managedFields, generationStayed: generation, contentStayed: content}
}

func TestScenariosAreFoundByName(t *testing.T) {
	found, err := Named("s1b,forms")
	if err != nil || len(found) != 2 || found[0].Name != "S1b" || found[1].Name != "forms" {
		t.Errorf("got %v, %v", found, err)
	}
	if _, err := Named("S1,S99"); err == nil {
		t.Error("S99 is no error")
	}
	if all, err := Named(""); err != nil || len(all) != len(All()) {
		t.Errorf("got %d scenarios, want all", len(all))
	}
}
