// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// `resume NAME`, or another request, would drop fields.
func TestWhatIsHeldBackNamesTheCommandThatAcceptsARollback(t *testing.T) {
	for name, test := range map[string]struct {
		condition v1alpha1.Condition
		next      string
	}{
		"rolled back": {v1alpha1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOlderRelease,
			Message: "Kubernetes was rolled back. Try: kube-migrator resume --all --accept-rollback"},
			"kubectl migrator resume --all --accept-rollback"},
		"a rolling upgrade": {v1alpha1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonMixedReleases,
			Message: "Two releases write."},
			"kubectl get leases -n kube-system -l apiserver.kubernetes.io/identity=kube-apiserver"},
	} {
		test.condition.Type = v1alpha1.ConditionRolledBack
		f := Facts{State: &v1alpha1.StorageStateStatus{Conditions: []v1alpha1.Condition{test.condition}}}
		for _, run := range []Run{Paused, NotRequested, HasFailed} {
			finding := Question{Program: "kubectl migrator"}.migrated(f, Finding{Run: run}, Undetermined, "unknown")
			if finding.Next != test.next || !strings.HasPrefix(finding.Why, "unknown; its migration is held back: ") ||
				strings.Contains(finding.Why, "Try:") {
				t.Errorf("%s, run %q: %+v", name, run, finding)
			}
		}
	}
}
