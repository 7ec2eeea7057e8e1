// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// refusedStart is a run that the API server did not let us create, because of a quota, an admission policy or a missing
// permission. Its migration does not keep its turn: the reason may concern no other migration.
type refusedStart struct {
	why string
	due time.Time // the next try
}

// refusedStarts are those of the migrations for which the last start was refused. They are not recorded: a controller
// that restarts tries again at once.
type refusedStarts map[types.UID]refusedStart

// startAgain is the time between two tries, whatever the number of migrations that wait for one (I7).
const startAgain = 10 * time.Second

// isRefusal reports whether the API server refused to create something. The other errors of a start are repeated at
// once, or come from a change that leads to another pass.
func isRefusal(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
		!apierrors.IsAlreadyExists(err)
}

// add notes a refusal. The next try is due after those of all others.
func (all refusedStarts) add(uid types.UID, err error, now time.Time) {
	for _, other := range all {
		now = latest(now, other.due)
	}
	all[uid] = refusedStart{why: err.Error(), due: now.Add(startAgain)}
}

// started notes that a run was created, so that the reason for the other refusals may be gone: they are due.
func (all refusedStarts) started(uid types.UID) {
	delete(all, uid)
	for other, r := range all {
		r.due = time.Time{}
		all[other] = r
	}
}

func (r refusedStart) refusal(generation int64) *refusal {
	return &refusal{v1alpha1.PhasePending, v1alpha1.ReasonNotCreated,
		fmt.Sprintf("Cannot create the run of generation %d: %s", generation, r.why)}
}
