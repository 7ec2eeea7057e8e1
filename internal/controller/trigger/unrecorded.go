// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/ledger"
)

// Unrecorded reports whether a running controller is expected to record in a StorageState what a migration has proven:
// the StorageState does not contain it yet, and nothing refuses the proof for good. The controller first compares the
// collection, and looks again if the API servers have changed since its last look. why is, for people, the reason why a
// proof was refused for good, or "". It is pure.
func Unrecorded(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) (awaited bool, why string) {
	proof := migrationOf(m).Proof
	if proof == nil || proof.Start == 0 {
		return false, "" // it belongs to another program or to an older controller
	}
	switch refused := ledger.Finished(recorded(s), []ledger.Proof{*proof}, ledger.Collection{}).Refused; refused {
	case "":
		return false, ""
	case ledger.TooEarly:
		return false, refused
	}
	return true, ""
}
