// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// AwaitsRecord reports whether the StorageState of a migration's resource will still record what the migration has
// proven; see Unrecorded. Where there is no StorageState, nothing will: a new one counts no run that started before it.
// A reader that lags keeps the migration for longer, or costs another run; it trims no record.
func AwaitsRecord(ctx context.Context, reader client.Reader, m *v1alpha1.StorageVersionMigration) (bool, error) {
	r := m.Spec.Resource
	for _, gv := range append([]v1alpha1.GroupVersion{{Group: r.Group}}, m.Spec.GroupVersions...) {
		state := new(v1alpha1.StorageState)
		err := reader.Get(ctx, client.ObjectKey{Name: stateName(gv.Group, r.Resource)}, state)
		if apierrors.IsNotFound(err) {
			continue // it may have the name of another group that serves the same objects
		}
		awaited, _ := Unrecorded(m, &state.Status)
		return awaited && err == nil, err
	}
	return false, nil
}

// Unrecorded reports whether a running controller is expected to record in a StorageState what a migration has proven:
// the StorageState does not contain it yet, and nothing refuses the proof for good. The controller first compares the
// collection, and looks again if the API servers have changed since its last look. A look that began after the success
// and has not counted the proof refuses it for good, unless the API servers did not agree then, or a collection that can
// be compared could not be read. why is, for users, the reason why a proof was refused for good, or "". It is pure.
func Unrecorded(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) (awaited bool, why string) {
	proof := migrationOf(m).Proof
	if proof == nil || proof.Start == 0 {
		return false, "" // it belongs to another program or to an older controller
	}
	refused := ledger.Finished(recorded(s), []ledger.Proof{*proof}, ledger.Collection{}).Refused
	completed := m.Status.Progress.CompletionTime
	looked := !completed.IsZero() && s.LastHeartbeatTime.After(completed.Time)
	switch {
	case refused == "":
		return false, ""
	case refused == ledger.TooEarly,
		looked && s.Epoch != nil && (refused != ledger.NotCompared || s.ResourceVersion == ""):
		return false, refused
	}
	return true, ""
}
