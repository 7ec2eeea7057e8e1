// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
)

// conditionOf returns the condition of a type, or its zero value if there is none.
func conditionOf(conditions []v1alpha1.Condition, t v1alpha1.ConditionType) v1alpha1.Condition {
	for _, c := range conditions {
		if c.Type == t {
			return c
		}
	}
	return v1alpha1.Condition{}
}

// isUnknown reports whether objects may be stored in versions that cannot be determined. An empty record counts as
// unknown.
func isUnknown(s *v1alpha1.StorageStateStatus) bool {
	return len(s.PersistedStorageVersionHashes) == 0 || slices.Contains(s.PersistedStorageVersionHashes, ledger.Unknown)
}

// disagree reports whether API servers encode the resource in different versions. A server that no longer answers
// counts with the version that it showed last.
func disagree(s *v1alpha1.StorageStateStatus) bool {
	shown := map[string]bool{}
	for _, server := range s.ServerStorageVersions {
		if server.EncodingVersionHash != "" {
			shown[server.EncodingVersionHash] = true
		}
	}
	return len(shown) > 1 || conditionOf(s.Conditions,
		v1alpha1.ConditionAllEncodingVersionsEqual).Status == metav1.ConditionFalse
}

// haveDisagreed reports whether the API servers disagreed the last time that all of them were asked, and have not been
// seen to agree since.
func haveDisagreed(conditions []v1alpha1.Condition) bool {
	reason := conditionOf(conditions, v1alpha1.ConditionAllEncodingVersionsEqual).Reason
	return reason == v1alpha1.ReasonDisagreement || reason == v1alpha1.ReasonUnresolved
}

func isMigrated(s *v1alpha1.StorageStateStatus) bool {
	return conditionOf(s.Conditions, v1alpha1.ConditionMigrated).Status == metav1.ConditionTrue
}

func isForbidden(s *v1alpha1.StorageStateStatus) bool {
	return conditionOf(s.Conditions, v1alpha1.ConditionPermitted).Status == metav1.ConditionFalse
}

// isByHand reports whether the permission is missing on purpose, because an administrator migrates the resource.
func isByHand(s *v1alpha1.StorageStateStatus) bool {
	return isForbidden(s) && conditionOf(s.Conditions, v1alpha1.ConditionPermitted).Reason == v1alpha1.ReasonByHand
}

// phase returns the one word that sums up a status. It is pure.
func phase(s *v1alpha1.StorageStateStatus) v1alpha1.StoragePhase {
	switch {
	case s.Excluded:
		return v1alpha1.StoragePhaseExcluded
	case isMigrated(s):
		return v1alpha1.StoragePhaseMigrated
	case isForbidden(s):
		return v1alpha1.StoragePhaseForbidden
	case isRolledBack(s.Conditions):
		return v1alpha1.StoragePhaseRolledBack
	case disagree(s):
		return v1alpha1.StoragePhaseDisagreed
	case isUnknown(s):
		return v1alpha1.StoragePhaseUnknown
	}
	return v1alpha1.StoragePhaseNotMigrated
}
