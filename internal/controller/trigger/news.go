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
)

// message is one Event.
type message struct{ kind, reason, message string }

// news are the Events about what a write changes. Deciding from the record before and after, each change is told once,
// whoever looked before: the record is written under the resourceVersion that was read. A record that begins tells
// nothing: every resource of a new installation begins as unknown. Nor does one of an excluded resource. It is pure.
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
	for i := range all {
		all[i].message = strings.ToValidUTF8(all[i].message[:min(len(all[i].message), longestNote)], "")
	}
	return all
}

// longestNote is what the API server takes as the note of an Event, in bytes.
const longestNote = 1024
