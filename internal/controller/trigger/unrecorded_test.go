// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"net/http"
	"testing"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/ledger"
)

// A command waits for the record of a proof for as long as settle would still write it, and no longer.
func TestAProofIsAwaitedInTheRecordUntilItIsThereOrRefusedForGood(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus)
		awaited bool
		why     string
	}{
		"it was proven": {func(*v1alpha1.StorageVersionMigration,
			*v1alpha1.StorageStateStatus) {
		}, true, ""},
		"the next look may count it": {func(_ *v1alpha1.StorageVersionMigration,
			s *v1alpha1.StorageStateStatus) {
			s.Epoch = nil
		}, true, ""},
		"it is recorded": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.PersistedStorageVersionHashes = []string{hashOf("v2")}
		}, false, ""},
		"it started too early": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.RequiredStartResourceVersion = "30"
		}, false, ledger.TooEarly},
		"its start is unknown": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Status.Run.StartResourceVersion = ""
		}, false, ""},
		"it has not succeeded": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Status.CompletedGeneration = 0
		}, false, ""},
	} {
		_, m := settling(t, func(http.ResponseWriter, *http.Request) {})
		c.change(&m.migration, &m.state.Status)
		if awaited, why := Unrecorded(&m.migration, &m.state.Status); awaited != c.awaited || why != c.why {
			t.Errorf("%s: awaited %t, %q, want %t, %q", name, awaited, why, c.awaited, c.why)
		}
	}
}
