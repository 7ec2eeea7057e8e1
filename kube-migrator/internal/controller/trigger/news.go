// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// Reasons of Events on StorageStates, next to those of the condition Permitted.
const (
	storedVersionsUnknown = "StoredVersionsUnknown"
	versionsDisagree      = "EncodingVersionsDisagree"
	versionsAgree         = "EncodingVersionsAgree"
	rolledBack            = "KubernetesRolledBack"
	rollbackEnded         = "KubernetesRollbackEnded"
)

// message is one Event.
type message struct{ kind, reason, message string }

// news returns the Events about what a write changes. It compares the record before and after, and the write carries
// the resourceVersion that was read, so each change is reported once, no matter which process looked before. A new
// record reports nothing, because every resource of a new installation starts as unknown. Excluded resources report
// nothing either. It is pure.
func news(before, after *v1alpha1.StorageStateStatus, doubt string) (all []message) {
	if len(before.PersistedStorageVersionHashes) == 0 || after.Excluded {
		return nil
	}
	if isUnknown(after) && !isUnknown(before) {
		text := "Objects may be stored in versions that cannot be determined"
		if doubt != "" {
			text += ": " + doubt
		}
		all = append(all, message{corev1.EventTypeWarning, storedVersionsUnknown, text})
	}
	switch equal := conditionOf(after.Conditions, v1alpha1.ConditionAllEncodingVersionsEqual); {
	case equal.Status == metav1.ConditionFalse && !haveDisagreed(before.Conditions):
		all = append(all, message{corev1.EventTypeWarning, versionsDisagree,
			strings.TrimSuffix("The API servers encode the resource in different versions: "+equal.Message, ": ")})
	case haveDisagreed(before.Conditions) && !haveDisagreed(after.Conditions):
		all = append(all, message{corev1.EventTypeNormal, versionsAgree, equal.Message})
	}
	switch is := isRolledBack(after.Conditions); {
	case is && !isRolledBack(before.Conditions) && !isMigrated(after):
		c := conditionOf(after.Conditions, v1alpha1.ConditionRolledBack)
		all = append(all, message{corev1.EventTypeWarning, rolledBack, c.Message})
	case !is && isRolledBack(before.Conditions) && !isMigrated(after):
		all = append(all, message{corev1.EventTypeNormal, rollbackEnded, "Kubernetes " + after.NewestRelease +
			" may rewrite objects again"})
	}
	for i := range all {
		all[i].message = strings.ToValidUTF8(all[i].message[:min(len(all[i].message), longestNote)], "")
	}
	return all
}

// longestNote is the longest note of an Event that the API server accepts, in bytes.
const longestNote = 1024
