// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"
	"testing"
)

func TestMarkersAreTakenApartAtTheirOwnCommas(t *testing.T) {
	t.Parallel()
	arguments := MarkerArguments(`groups="a.b";c,resources={x,y},verbs=get;list`)
	for key, want := range map[string][]string{"groups": {"a.b", "c"}, "resources": {"x", "y"}, "verbs": {"get", "list"}} {
		if got := ValuesOf(arguments, key); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
