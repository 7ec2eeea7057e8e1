// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// Run is the state of the run that a StorageVersionMigration requests. The set is closed.
type Run string

// The runs.
const (
	NotRequested Run = "" // there is no StorageVersionMigration
	NotBegun     Run = "NotBegun"
	AtWork       Run = "AtWork"
	Paused       Run = "Paused"
	HasSucceeded Run = "Succeeded"
	HasFailed    Run = "Failed"
	WasCancelled Run = "Cancelled"
)

// Unfinished reports whether a run was requested that has neither succeeded nor failed, and was not cancelled.
func (r Run) Unfinished() bool { return r == NotBegun || r == AtWork || r == Paused }

// RunOf returns the state of the run that m requests; for nil, NotRequested.
func RunOf(m *v1alpha1.StorageVersionMigration) Run {
	switch {
	case m == nil:
		return NotRequested
	case m.Status.CompletedGeneration >= m.Spec.Generation:
		return HasSucceeded
	case m.Status.Run.Generation >= m.Spec.Generation && isTrue(m.Status.Conditions, v1alpha1.ConditionFailed):
		return HasFailed
	case m.Spec.State == v1alpha1.StatePaused:
		return Paused
	case m.Spec.State == v1alpha1.StateCancelled:
		return WasCancelled
	case m.Status.Run.Generation < m.Spec.Generation:
		return NotBegun
	}
	return AtWork
}

// Migration returns the StorageVersionMigration that counts for the resource: one that is not finished, else one that
// has succeeded with the version that is written now, else the newest; or nil if there is none. Among equals the newest
// counts.
func (f Facts) Migration() *v1alpha1.StorageVersionMigration {
	rank := func(m *v1alpha1.StorageVersionMigration) int {
		switch run := RunOf(m); {
		case run.Unfinished():
			return 0
		case run == HasSucceeded && m.Status.StorageVersionHash == f.CurrentHash:
			return 1
		}
		return 2
	}
	var all []*v1alpha1.StorageVersionMigration
	for i := range f.Migrations {
		all = append(all, &f.Migrations[i])
	}
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, func(a, b *v1alpha1.StorageVersionMigration) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
}

// migrated answers if a migration helps: it names the command that requests one, or the state of a requested one.
func (q Question) migrated(f Facts, finding Finding, v Verdict, why string) Finding {
	m := f.Migration()
	if isByHand(f.State) {
		return finding.is(v, why+"; its migration is left to an administrator, because no admission policy can guard "+
			"it against a worker",
			q.Program+" migrate "+finding.Resource)
	}
	if forbidden(f.State) && finding.Run != AtWork &&
		condition(f.State.Conditions, v1alpha1.ConditionPermitted).Reason == v1alpha1.ReasonUnguarded {
		return finding.is(v, why+"; it cannot be migrated: the admission policies of the guard are not in force",
			"kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings")
	}
	if forbidden(f.State) && finding.Run != AtWork {
		return finding.is(v, why+"; it cannot be migrated: the worker's permissions do not cover it", q.Program+
			" install")
	}
	if c := RolledBack(f.State); c != nil && finding.Run != AtWork {
		why += "; its migration is held back: " + c.Message
		if text, try, asks := strings.Cut(why, " Try: kube-migrator "); asks {
			return finding.is(v, strings.TrimSuffix(text, "."), q.Program+" "+try)
		}
		return finding.is(v, strings.TrimSuffix(why, "."), "kubectl get leases -n kube-system "+
			"-l apiserver.kubernetes.io/identity=kube-apiserver")
	}
	if evidence, message := weakEvidence(f.State); evidence != "" && finding.Run != AtWork {
		return finding.is(v, why+"; a migration could not be proven"+behind(message), q.Program+
			" install --min-evidence="+evidence)
	}
	if len(f.MayLose) > 0 && finding.Run != AtWork && finding.Run != HasFailed { // the run itself says more
		finding.MayLose = f.MayLose
		why += "; a migration leaves objects alone that have " + pruning.Describe(f.MayLose) + ", because they would lose it"
	}
	switch finding.Run {
	case NotBegun:
		return finding.is(v, why+"; its migration has not begun", q.Program+" wait "+m.Name)
	case AtWork:
		return finding.is(v, why+"; its migration is not finished"+behind(messageOf(m, v1alpha1.ConditionReconciling)),
			q.Program+" wait "+m.Name)
	case Paused:
		return finding.is(v, why+"; its migration is paused", q.Program+" resume "+m.Name)
	case HasFailed:
		return finding.is(v, why+"; its migration failed"+behind(failure(m)), describe(m))
	case WasCancelled:
		why += "; its migration was cancelled"
	case NotRequested, HasSucceeded:
	}
	return finding.is(v, why, q.migrate(finding.Resource))
}

// Failure returns what to show of a run that failed, and what to try, where its finding is shown with the run: what the
// run says, unless the finding asks for something else first.
func (f Facts) Failure(finding Finding) (why, try string) {
	m := f.Migration()
	if try = describe(m); finding.Next != "" && finding.Next != try {
		return finding.Why, finding.Next
	}
	return cmp.Or(failure(m), finding.Why), try
}

// failure returns what a run that failed says.
func failure(m *v1alpha1.StorageVersionMigration) string {
	return cmp.Or(messageOf(m, v1alpha1.ConditionFailed), m.Status.Summary)
}

// describe returns the command that shows a run and its failures.
func describe(m *v1alpha1.StorageVersionMigration) string {
	return "kubectl describe storageversionmigrations.migration.k8s.io " + m.Name
}

// forbidden reports whether the controller found that its workers are forbidden to migrate the resource.
func forbidden(s *v1alpha1.StorageStateStatus) bool {
	if s == nil {
		return false
	}
	c := condition(s.Conditions, v1alpha1.ConditionPermitted)
	return c != nil && c.Status == metav1.ConditionFalse
}

// RolledBack returns the condition if the controller rewrites nothing because of the releases of the API servers, else
// nil.
func RolledBack(s *v1alpha1.StorageStateStatus) *v1alpha1.Condition {
	if s == nil {
		return nil
	}
	return condition(s.Conditions, v1alpha1.ConditionRolledBack)
}

// weakEvidence returns the evidence about the API servers, as the value of a flag, if it is too weak to prove a
// migration, and the controller's message about it.
func weakEvidence(s *v1alpha1.StorageStateStatus) (evidence, message string) {
	if s == nil {
		return "", ""
	}
	c := condition(s.Conditions, v1alpha1.ConditionAllEncodingVersionsEqual)
	if c == nil || c.Status == metav1.ConditionTrue {
		return "", ""
	}
	switch c.Reason {
	case v1alpha1.ReasonOnlySampled:
		return "verified", c.Message
	case v1alpha1.ReasonOnlyObserved:
		return "observed", c.Message
	}
	return "", ""
}

// isByHand reports whether the worker lacks the permission to migrate the resource on purpose.
func isByHand(s *v1alpha1.StorageStateStatus) bool {
	return forbidden(s) && condition(s.Conditions, v1alpha1.ConditionPermitted).Reason == v1alpha1.ReasonByHand
}

// behind formats a message as the end of a sentence. It returns "" for an empty message.
func behind(message string) string {
	if message == "" {
		return ""
	}
	return ": " + strings.Join(strings.Fields(message), " ")
}

func condition(all []v1alpha1.Condition, t v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range all {
		if all[i].Type == t {
			return &all[i]
		}
	}
	return nil
}

func isTrue(all []v1alpha1.Condition, t v1alpha1.ConditionType) bool {
	c := condition(all, t)
	return c != nil && c.Status == metav1.ConditionTrue
}

func messageOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) string {
	if c := condition(m.Status.Conditions, t); c != nil {
		return c.Message
	}
	return ""
}
