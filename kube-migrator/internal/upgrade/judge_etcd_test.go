// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func held(version string, objects int64) Held {
	return Held{Version: schema.GroupVersion{Group: "demo.example.com", Version: version},
		Kind: "Widget", Objects: objects}
}

func TestWhatEtcdHoldsOutweighsEveryRecord(t *testing.T) {
	q := question()
	q.Etcd = true
	target := going(t, "1.36")
	target.Etcd = true
	in := func(f Facts, h ...Held) Facts { f.Held = h; return f }
	opaque := Held{Objects: 2, Opaque: true}
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
	}{
		"all current though the record says Unknown": {q, in(widgets("Unknown"), held("v2", 3)),
			verdict{Safe, "everything is stored as v2", "", ByEtcd}},
		"all current without a record": {q, in(widgets(), held("v2", 3)),
			verdict{Safe, "everything is stored as v2", "", ByEtcd}},
		"nothing at all": {q, widgets("v1"), verdict{Safe, "everything is stored as v2", "", ByEtcd}},
		"old objects though the record says none": {q, in(widgets("v2"), held("v1", 3), held("v2", 1)),
			verdict{Unsafe, "etcd holds 3 objects as v1, not only as v2",
				"kube-migrator request widgets.demo.example.com", ByEtcd}},
		"all current, and a server that still writes the old one": {q, in(with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.ServerStorageVersions = []v1alpha1.ServerEncodingVersion{{APIServerID: "a",
				EncodingVersionHash: widgetHash("v1"), EncodingVersion: "v1"}}
		}), held("v2", 3)), verdict{Unsafe, "v1 is written now, not only as v2",
			"kube-migrator request widgets.demo.example.com", ByEtcd}},
		"all current, and servers that disagree": {q, in(with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual,
				Status: metav1.ConditionFalse}}
		}), held("v2", 3)),
			verdict{Unsafe, "the API servers disagree",
				"kubectl describe storagestates.migration.k8s.io widgets.demo.example.com", ByEtcd}},
		"all current, and servers that disagreed long ago": {q, in(with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.CurrentStorageVersionHash, s.LastHeartbeatTime = v1alpha1.Unknown, metav1.NewTime(now.Add(-time.Hour))
		}), held("v2", 3)), verdict{Safe, "everything is stored as v2", "", ByEtcd}},
		"encrypted, and a record": {q, in(widgets("v2"), opaque),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"encrypted, and a record of old versions": {q, in(widgets("v1", "v2"), opaque, held("v2", 1)),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				"kube-migrator request widgets.demo.example.com", ByStorageState}},
		"encrypted, and no record": {q, in(widgets(), opaque),
			verdict{Undetermined, "etcd holds objects that are encrypted or cannot be decoded, and no StorageState " +
				"says in which version", "kube-migrator request widgets.demo.example.com", ByNothing}},
		"what the target can decode": {target, in(widgets("v2"), held("v1", 3)),
			verdict{Safe, "its CustomResourceDefinition has v1, v2", "", ByEtcd}},
		"what the target cannot decode": {target, in(widgets("v2"), held("v0", 1)),
			verdict{Unsafe, "etcd holds 1 object as v0, which its CustomResourceDefinition does not have",
				"kube-migrator request widgets.demo.example.com", ByEtcd}},
		"a resource that is not stored, and is": {q, in(func() Facts { f := widgets(); f.NotStored = true; return f }(),
			held("v1", 1)), verdict{Unsafe, "etcd holds 1 object as v1, not only as v2",
			"kube-migrator request widgets.demo.example.com", ByEtcd}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, of(test.question.Judge(test.facts))); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRecordsThatClaimLessThanEtcdHoldsAreNamed(t *testing.T) {
	const (
		stateRecord = "storagestates.migration.k8s.io/widgets.demo.example.com"
		crdRecord   = "customresourcedefinitions.apiextensions.k8s.io/widgets.demo.example.com"
	)
	in := func(f Facts, claimed []string, h ...Held) Facts {
		f.CRD.StoredVersions, f.Held = claimed, h
		return f
	}
	both := []string{"v1", "v2"}
	for name, test := range map[string]struct {
		facts Facts
		want  []Understatement
	}{
		"both are true":                {in(widgets("v1", "v2"), both, held("v1", 3), held("v2", 1)), nil},
		"they claim more than is held": {in(widgets("v1", "v2"), both, held("v2", 1)), nil},
		"the StorageState": {in(widgets("v2"), both, held("v1", 3), held("v2", 1)), []Understatement{
			{Record: stateRecord, Claims: []string{"v2"}, Missing: []string{"v1"}, Objects: 3,
				Next: "kubectl delete " + stateRecord}}},
		"storedVersions": {in(widgets("v1", "v2"), []string{"v2"}, held("v0", 1), held("v1", 3)), []Understatement{
			{Record: stateRecord, Claims: both, Missing: []string{"v0"}, Objects: 1,
				Next: "kubectl delete " + stateRecord},
			{Record: crdRecord, Claims: []string{"v2"}, Missing: []string{"v0", "v1"}, Objects: 4,
				Next: "kube-migrator migrate widgets.demo.example.com"}}},
		"a resource that is gone, whose kind only etcd knows": {func() Facts {
			f := widgets("v2")
			f.Gone, f.Kind, f.CRD, f.Held = true, "", nil, []Held{held("v1", 3), held("v2", 1)}
			return f
		}(), []Understatement{{Record: stateRecord, Claims: []string{"v2"}, Missing: []string{"v1"}, Objects: 3,
			Next: "kubectl delete " + stateRecord}}},
		"Unknown claims everything": {in(widgets("Unknown"), both, held("v1", 1)), nil},
		"an empty record claims nothing": {in(with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.PersistedStorageVersionHashes = nil
		}), both, held("v2", 1)), []Understatement{
			{Record: stateRecord, Claims: []string{}, Missing: []string{"v2"}, Objects: 1,
				Next: "kubectl delete " + stateRecord}}},
		"encrypted objects cannot tell": {in(widgets("v2"), []string{"v2"}, Held{Objects: 1, Opaque: true}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, question().Understated(test.facts)); diff != "" {
				t.Errorf("understated (-want +got):\n%s", diff)
			}
		})
	}
}

func TestObjectsInEtcdOfNoResourceAreNamed(t *testing.T) {
	q := question()
	q.Etcd = true
	got := q.Judge(Facts{Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}, Gone: true,
		Held: []Held{held("v1", 1), held("v2", 1), {Objects: 1, Opaque: true}}})
	want := Finding{
		Resource: "widgets.demo.example.com", Verdict: Undetermined, Source: ByEtcd, Stored: []string{"v1", "v2"},
		Why: "etcd holds objects of it, and the API server does not have the resource",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("finding (-want +got):\n%s", diff)
	}
}
