// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// stateThat returns a recorded status with a change: v1 and v2 may be stored, and two API servers write v2.
func stateThat(t *testing.T, change func(*ledger.State, *agreement.Verdict)) *v1alpha1.StorageStateStatus {
	t.Helper()
	s, v := full, view
	s.Persisted, s.Servers, s.OnlyDecodable = []string{"h1", "h2"},
		[]ledger.Server{{ID: "api-1", Hash: "h2", Answered: true}, {ID: "api-2", Hash: "h2", Answered: true}}, false
	change(&s, &v)
	written := status(new(v1alpha1.StorageStateStatus), s, &v, "", noon)
	return &written
}

func proven(s *ledger.State, _ *agreement.Verdict)  { s.Persisted = []string{"h2"} }
func unknown(s *ledger.State, _ *agreement.Verdict) { s.Persisted = []string{ledger.Unknown, "h2"} }

func disagreeing(s *ledger.State, v *agreement.Verdict) {
	s.Epoch, s.Current = nil, ledger.Unknown
	v.Epoch, v.Disagree, v.Why = nil, true, "api-1 writes v1, api-2 writes v2"
}

// silent makes an API server not answer, so that the versions written now are unknown.
func silent(s *ledger.State, v *agreement.Verdict) {
	s.Epoch, s.Current = nil, ledger.Unknown
	v.Epoch, v.Disagree, v.Why = nil, false, "api-2 does not answer"
}

// weak makes the API servers agree without having been asked one by one.
func weak(s *ledger.State, v *agreement.Verdict) {
	s.Epoch, s.Current = nil, ledger.Unknown
	v.Evidence = migrate.Sampled
}

func TestOneWordSumsUpWhatHasToBeResolvedFirst(t *testing.T) {
	forbid := func(s *v1alpha1.StorageStateStatus) {
		s.Conditions = append(
			s.Conditions,
			v1alpha1.Condition{Type: v1alpha1.ConditionPermitted, Status: metav1.ConditionFalse},
		)
	}
	exclude := func(s *v1alpha1.StorageStateStatus) { s.Excluded = true }
	as := func(*v1alpha1.StorageStateStatus) {}
	for name, c := range map[string]struct {
		change func(*ledger.State, *agreement.Verdict)
		also   func(*v1alpha1.StorageStateStatus)
		want   v1alpha1.StoragePhase
	}{
		"proven": {proven, as, v1alpha1.StoragePhaseMigrated},
		"two versions": {func(*ledger.State, *agreement.Verdict) {}, as,
			v1alpha1.StoragePhaseNotMigrated},
		"unknown": {unknown, as, v1alpha1.StoragePhaseUnknown},
		"nothing recorded": {func(s *ledger.State,
			_ *agreement.Verdict) {
			s.Persisted = nil
		}, as, v1alpha1.StoragePhaseUnknown},
		"disagreement": {disagreeing, as, v1alpha1.StoragePhaseDisagreed},
		"a disagreement, one of them silent": {func(s *ledger.State,
			v *agreement.Verdict) {
			silent(s, v)
			s.Servers[0].Hash = "h1"
		}, as, v1alpha1.StoragePhaseDisagreed},
		"unknown, and a disagreement": {func(s *ledger.State,
			v *agreement.Verdict) {
			unknown(s, v)
			disagreeing(s, v)
		}, as, v1alpha1.StoragePhaseDisagreed},
		"unknown, and no permission":                     {unknown, forbid, v1alpha1.StoragePhaseForbidden},
		"proven, and no permission, which is not needed": {proven, forbid, v1alpha1.StoragePhaseMigrated},
		"excluded": {unknown, exclude, v1alpha1.StoragePhaseExcluded},
	} {
		s := stateThat(t, c.change)
		c.also(s)
		if got := phase(s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
