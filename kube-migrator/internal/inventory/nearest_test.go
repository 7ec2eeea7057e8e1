// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNamesThatMayHaveBeenMeant(t *testing.T) {
	names := []string{"gadgets.demo.example.com", "secrets", "widgets.demo.example.com", "widgets.other.example.com"}
	for typed, want := range map[string][]string{
		"widgts": {"widgets.demo.example.com", "widgets.other.example.com"},
		"Widgets.demo.example.org": {"widgets.demo.example.com", "gadgets.demo.example.com",
			"widgets.other.example.com"},
		"secret": {"secrets"},
		"nodes":  nil,
	} {
		if diff := cmp.Diff(want, Nearest(typed, names)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", typed, diff)
		}
	}
}
