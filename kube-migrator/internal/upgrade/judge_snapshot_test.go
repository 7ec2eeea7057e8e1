// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/crdlife"
)

// The snapshot of these tests was taken at taken, when everything was stored as v2.
const (
	before, taken, after = "99", 100, "101"
	request              = "kube-migrator request widgets.demo.example.com"
)

func fromSnapshot() Question {
	q := question()
	q.Etcd, q.Snapshot = true, taken
	return q
}

// stateAt writes the resourceVersion of the StorageState, and leaves the snapshot with three objects in v2.
func stateAt(version string, f Facts) Facts {
	f.StateVersion, f.Held = version, []Held{held("v2", 3)}
	f.CRD.ResourceVersion = before
	return f
}

func TestASnapshotOutweighsOnlyRecordsThatItIsNotOlderThan(t *testing.T) {
	const newer = "its StorageState, which may be newer than the snapshot, says that objects may be stored as v1"
	current := verdict{Safe, "everything is stored as v2", "", ByEtcd}
	crdAt := func(version string, f Facts, stored ...string) Facts {
		f.CRD.ResourceVersion, f.CRD.StoredVersions = version, stored
		return f
	}
	old := func(f Facts) Facts {
		return with(f, func(s *v1alpha1.StorageStateStatus) {
			s.LastHeartbeatTime = metav1.NewTime(now.Add(-time.Hour))
		})
	}
	running := question()
	running.Etcd = true
	decoding := going(t, "1.36")
	decoding.Etcd, decoding.Snapshot = true, taken
	claimed := verdict{Unsafe, "status.storedVersions, which may be newer than the snapshot, says that objects may be " +
		"stored as v1, not only as v2", request, ByEtcd}
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
	}{
		"an older StorageState":             {fromSnapshot(), stateAt(before, widgets("v1", "v2")), current},
		"the StorageState that it contains": {fromSnapshot(), stateAt("100", widgets("v1", "v2")), current},
		"a newer StorageState": {fromSnapshot(), stateAt(after, widgets("v1", "v2")),
			verdict{Unsafe, newer + ", not only as v2", request, ByEtcd}},
		"a newer StorageState that names nothing else": {fromSnapshot(), stateAt(after, widgets("v2")), current},
		"a StorageState whose place in time is unknown": {fromSnapshot(), stateAt("", widgets("v1", "v2")),
			verdict{Unsafe, newer + ", not only as v2", request, ByEtcd}},
		"a newer StorageState that says Unknown": {fromSnapshot(), stateAt(after, widgets("Unknown", "v2")),
			verdict{Undetermined, "its StorageState says Unknown: objects may be stored in versions that no one knows; " +
				"the snapshot may be older than that", request, ByEtcd}},
		"a newer StorageState that is out of date": {fromSnapshot(), stateAt(after, old(widgets("v2"))),
			verdict{Undetermined, "its StorageState was last renewed 1h0m ago, and at most 17m was expected: what " +
				"happened since is unknown",
				"kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator", ByEtcd}},
		"a newer StorageState whose API servers disagree": {fromSnapshot(),
			stateAt(after, with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
				s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual,
					Status: metav1.ConditionFalse}}
			})), verdict{Unsafe, "the API servers disagree",
				"kubectl describe storagestates.migration.k8s.io widgets.demo.example.com", ByEtcd}},
		"an older StorageState that is out of date": {fromSnapshot(), stateAt(before, old(widgets("v1", "v2"))), current},
		"a newer StorageState whose versions the target can decode": {decoding, stateAt(after, widgets("v1", "v2")),
			verdict{Safe, "its CustomResourceDefinition has v2, v1", "", ByEtcd}},
		"a newer StorageState, and a running etcd": {running, stateAt(after, widgets("v1", "v2")), current},
		"an older CRD without a StorageState":      {fromSnapshot(), crdAt(before, stateAt("", widgets()), "v1", "v2"), current},
		"a newer CRD without a StorageState":       {fromSnapshot(), crdAt(after, stateAt("", widgets()), "v1", "v2"), claimed},
		"a newer CRD and an older StorageState":    {fromSnapshot(), crdAt(after, stateAt(before, widgets("v2")), "v1", "v2"), claimed},
		"a CRD whose place in time is unknown":     {fromSnapshot(), crdAt("x", stateAt("", widgets()), "v1", "v2"), claimed},
		"a newer CRD, and a StorageState with a newer proof": {fromSnapshot(),
			crdAt(after, stateAt(after, widgets("v2")), "v1", "v2"), current},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, of(test.question.Judge(test.facts))); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANewCRDIsJudgedByWhatWasRecordedAfterTheSnapshot(t *testing.T) {
	const (
		newer = ", which may be newer than the snapshot, says that objects may be stored as v1"
		only  = ", and it has only v2"
	)
	v1, v2 := [3]string{"v1", "s", color}, [3]string{"v2", "s*", color}
	live := func(version string, stored ...string) *crdlife.CRD {
		c := crdOf(t, "", v1, v2)
		c.Metadata.ResourceVersion, c.Status.StoredVersions = version, stored
		return c
	}
	safe := verdict{Safe, "every stored version stays readable", "", ByEtcd}
	for name, test := range map[string]struct {
		live  *crdlife.CRD
		facts Facts
		want  verdict
	}{
		"everything is older": {live(before, "v1", "v2"), stateAt(before, widgets("v1", "v2")), safe},
		"a newer CRD": {live(after, "v1", "v2"), stateAt(before, widgets("v2")),
			verdict{Unsafe, "status.storedVersions" + newer +
				only, request, ByEtcd}},
		"a CRD whose place in time is unknown": {live("", "v1", "v2"), stateAt(before, widgets("v2")),
			verdict{Unsafe, "status.storedVersions" + newer +
				only, request, ByEtcd}},
		"a newer StorageState": {live(before, "v2"), stateAt(after, widgets("v1", "v2")),
			verdict{Unsafe, "its StorageState" + newer +
				only, request, ByEtcd}},
		"a newer CRD, and a StorageState with a newer proof": {live(after, "v1", "v2"), stateAt(after, widgets("v2")),
			verdict{Unsafe, "its StorageState or status.storedVersions" + newer +
				only, request, ByEtcd}},
		"a newer StorageState that says Unknown": {live(before, "v2"), stateAt(after, widgets("Unknown", "v2")),
			verdict{Undetermined, "it removes v1, and its StorageState says Unknown: objects may be stored in versions " +
				"that no one knows; the snapshot may be older than that", request, ByEtcd}},
	} {
		t.Run(name, func(t *testing.T) {
			q := fromSnapshot()
			q.Applying = true
			got := q.JudgeCRD(crdOf(t, "", v2), crdlife.Facts{Live: test.live}, test.facts)
			if diff := cmp.Diff(test.want, of(got)); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARecordThatIsNewerThanTheSnapshotClaimsNothingAboutIt(t *testing.T) {
	for name, test := range map[string]struct {
		state, crd string
		want       int
	}{
		"both are older":            {before, before, 2},
		"the StorageState is newer": {after, before, 1},
		"the CRD is newer":          {before, after, 1},
		"both are newer":            {after, after, 0},
	} {
		f := stateAt(test.state, widgets("v1"))
		f.CRD.ResourceVersion, f.CRD.StoredVersions = test.crd, []string{"v1"}
		if got := fromSnapshot().Understated(f); len(got) != test.want {
			t.Errorf("%s: %d records claim less than the snapshot holds, want %d: %+v", name, len(got), test.want, got)
		}
	}
}
