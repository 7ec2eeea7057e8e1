// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestALeaseIsAbandonedByTheClockOfTheOthers(t *testing.T) {
	lease := func(holder string, renewed time.Time) (o object) {
		o.Spec.HolderIdentity, o.Spec.RenewTime = holder, metav1.NewMicroTime(renewed)
		return o
	}
	// All of it is hours away from this machine's clock, one way or the other.
	for _, now := range []time.Time{noon, time.Now().Add(10 * time.Hour)} {
		got := abandoned([]object{lease("dead", now.Add(-2*time.Minute)), lease("alive", now), lease("slow", now.Add(-time.Minute))})
		if len(got) != 1 || !strings.HasPrefix(got[0], "lease dead last renewed ") {
			t.Errorf("abandoned are %v", got)
		}
	}
}
