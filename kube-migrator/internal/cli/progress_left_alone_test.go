// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func TestARowSaysHowManyObjectsWereLeftAlone(t *testing.T) {
	m := &v1alpha1.StorageVersionMigration{
		Spec: v1alpha1.StorageVersionMigrationSpec{Generation: 1},
		Status: v1alpha1.StorageVersionMigrationStatus{Run: v1alpha1.Run{Generation: 1},
			Progress: v1alpha1.Progress{Failed: 3, WouldLoseFields: 2}},
	}
	if row := rowOf(m, "widgets"); row.Failed != 3 || row.WouldLoseFields != 2 {
		t.Errorf("%d failed, %d left alone, want 3 and 2", row.Failed, row.WouldLoseFields)
	}
	m.Spec.Generation = 2
	if row := rowOf(m, "widgets"); row.WouldLoseFields != 0 {
		t.Errorf("the run that is requested now has left %d alone, want 0", row.WouldLoseFields)
	}
}
