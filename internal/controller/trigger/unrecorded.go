// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/ledger"
)

// Unrecorded reports whether a running controller is expected to record in a StorageState what a migration has proven:
// the record says something else, and does not refuse the proof for good. The controller compares the collection first,
// and looks again where the API servers have changed since its last look. why is why a proof was refused for good, for
// people; empty where none was. It is pure.
func Unrecorded(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) (awaited bool, why string) {
	proof := migrationOf(m).Proof
	if proof == nil || proof.Start == 0 {
		return false, "" // of another program, or of an older controller
	}
	switch refused := ledger.Finished(recorded(s), []ledger.Proof{*proof}, ledger.Collection{}).Refused; refused {
	case "":
		return false, ""
	case ledger.TooEarly:
		return false, refused
	}
	return true, ""
}
