// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// turns decides whose turn it is (I8).
type turns struct {
	most int
	// working are the runs for which objects may be written.
	working []run
	inTree  inTree
}

// refusal is why a run may not start yet.
type refusal struct {
	phase   v1alpha1.Phase
	reason  string
	message string
}

// refuse returns why the run may not start now, or nil if it may.
//
// Runs on resources that may be the same stored objects are never at work at the same time; see mayShare.
func (t turns) refuse(r run) *refusal {
	var others, same int
	for _, w := range t.working {
		if w.name == r.name {
			continue
		}
		if w.resource == "" { // its resource is unknown, so it may be this one
			return &refusal{v1alpha1.PhasePending, v1alpha1.ReasonQueued, "Waiting for " + w.name + " to end" +
				": the resource that it rewrites is unknown"}
		}
		if w.superseded || w.ending { // one pace in the cluster: the next worker starts when it has stopped
			return &refusal{v1alpha1.PhasePending, v1alpha1.ReasonQueued, "Waiting for the present worker to stop"}
		}
		if mayShare(w.resource, r.resource) {
			same++
		}
		others++
	}
	switch { // the most stable text comes first: each change is written for every migration that waits
	case others >= t.most:
		return &refusal{v1alpha1.PhasePending, v1alpha1.ReasonQueued,
			fmt.Sprintf("Waiting for its turn: at most %d migrations run at a time", t.most)}
	case same > 0:
		return &refusal{v1alpha1.PhasePending, v1alpha1.ReasonQueued,
			"Waiting for another run on " + r.resource + " to end"}
	}
	if name := t.inTree.working[schema.ParseGroupResource(r.resource).Resource]; name != "" {
		return blocked("Waiting for the in-tree migration " + name +
			" (storageversionmigrations.storagemigration.k8s.io) to end")
	}
	if t.inTree.problem != "" {
		return blocked("Cannot determine whether the in-tree migrator is at work: " + t.inTree.problem)
	}
	return nil
}

// mayShare reports whether two resources may be the same stored objects, as events of the core group and of events.k8s.io
// are: groups of Kubernetes itself, which have no dot or end in .k8s.io, may serve them under one plural name. Custom
// resources of two groups never are. A name without a group may have lost it: a run of an older version has none.
func mayShare(a, b string) bool {
	one, other := schema.ParseGroupResource(a), schema.ParseGroupResource(b)
	ofKubernetes := func(group string) bool { return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") }
	return one.Resource == other.Resource && (one.Group == other.Group || one.Group == "" || other.Group == "" ||
		ofKubernetes(one.Group) && ofKubernetes(other.Group))
}

func blocked(message string) *refusal {
	return &refusal{v1alpha1.PhaseWaiting, v1alpha1.ReasonBlocked, message}
}

// begin records that the run works.
func (t *turns) begin(r run) {
	if !slices.ContainsFunc(t.working, func(w run) bool { return w.name == r.name }) {
		t.working = append(t.working, r)
	}
}

// queue sorts migrations by whose turn comes first: those that have begun, then those with the greatest priority, to
// which each minute of waiting adds 1.
func queue(all []v1alpha1.StorageVersionMigration, begun map[types.UID][]run, now time.Time) {
	rank := func(m *v1alpha1.StorageVersionMigration) int {
		if len(begun[m.UID]) > 0 {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.StorageVersionMigration) int {
		return cmp.Or(
			cmp.Compare(rank(&a), rank(&b)),
			cmp.Compare(urgency(&b, now), urgency(&a, now)),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// urgency combines the priority of a migration with the time for which it has waited.
func urgency(m *v1alpha1.StorageVersionMigration, now time.Time) time.Duration {
	return time.Duration(cmp.Or(m.Spec.Priority, v1alpha1.DefaultPriority))*time.Minute + now.Sub(waitingSince(m, now))
}

// waitingSince returns since when there has been something to do: since the migration was created, or last succeeded or
// failed.
func waitingSince(m *v1alpha1.StorageVersionMigration, now time.Time) time.Time {
	for _, c := range m.Status.Conditions {
		switch {
		case c.Type != v1alpha1.ConditionReconciling:
		case c.Status != metav1.ConditionTrue:
			return now // it was until this pass
		default:
			return latest(c.LastTransitionTime.Time, m.CreationTimestamp.Time)
		}
	}
	return m.CreationTimestamp.Time
}
