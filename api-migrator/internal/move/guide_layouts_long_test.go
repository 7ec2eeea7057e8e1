// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import "testing"

func TestTheGuidesProjectWithEveryCombinationOfOptionsInEachLayoutOfKubebuilder(t *testing.T) {
	for layout := range guideLayouts {
		dir := asKubebuilder(t, layout)
		for _, one := range everyOption() {
			t.Run(layout+","+one.String(), func(t *testing.T) {
				t.Parallel()
				checkOutcome(t, dir, one.of(guideRequest))
			})
		}
		for what, asked := range guideSuccessors {
			t.Run(layout+","+what, func(t *testing.T) {
				t.Parallel()
				checkSuccession(t, dir, asked)
			})
		}
	}
}
