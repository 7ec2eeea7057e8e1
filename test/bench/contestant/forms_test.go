// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

func TestAKindHasTheFormsThatItsServerTakes(t *testing.T) {
	for name, test := range map[string]struct {
		kind lab.Kind
		want []string
	}{
		"a custom resource without subresources": {lab.Widgets(), []string{
			"merge patch {}", "JSON patch []", "apply of no field", "PUT of what was read"}},
		"a custom resource with both": {lab.ScalableWidgets(), []string{
			"merge patch {}", "JSON patch []", "apply of no field", "PUT of what was read",
			"/status merge patch {}", "/scale merge patch {}"}},
		"a built-in resource without subresources": {lab.ConfigMaps(), []string{
			"merge patch {}", "strategic merge patch {}", "JSON patch []", "apply of no field", "PUT of what was read"}},
		"a built-in resource with both": {lab.Deployments(), []string{
			"merge patch {}", "strategic merge patch {}", "JSON patch []", "apply of no field", "PUT of what was read",
			"/status merge patch {}", "/scale merge patch {}"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, form := range FormsOf(test.kind) {
				got = append(got, form.Name)
				if found, err := formNamed(form.Name); err != nil || found != form {
					t.Errorf("%s is not found by its name: %v", form.Name, err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("forms (-want +got):\n%s", diff)
			}
		})
	}
}
