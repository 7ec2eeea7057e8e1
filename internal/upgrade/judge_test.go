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
	"github.com/kube-migrator/kube-migrator/storageversion"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// question asks in a cluster with StorageStates.
func question() Question {
	return Question{Program: "kube-migrator", Now: now, Installed: true}
}

// going asks whether a release can decode what is stored.
func going(t *testing.T, release string) Question {
	t.Helper()
	q := question()
	table, minor, known, err := ReleaseTable(release)
	if err != nil || !known {
		t.Fatalf("table of %s: %v, %v", release, known, err)
	}
	q.Target = &Target{Name: "Kubernetes " + minor, Table: table}
	return q
}

func hash(group, version, kind string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
}

func widgetHash(version string) string { return hash("demo.example.com", version, "Widget") }

// widgets are written as v2; their definition has v1 and v2, and claims both.
func widgets(persisted ...string) Facts {
	f := Facts{
		Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}, Kind: "Widget",
		Definition: &Definition{Group: "demo.example.com", Kind: "Widget", Versions: []string{"v1", "v2"},
			StorageVersion: "v2", StoredVersions: []string{"v1", "v2"}},
		Current: schema.GroupVersion{Group: "demo.example.com", Version: "v2"}, CurrentHash: widgetHash("v2"),
	}
	if len(persisted) > 0 {
		f.State = state(widgetHash, "v2", persisted...)
	}
	return f
}

// state is fresh, and all servers agree.
func state(hash func(string) string, current string, persisted ...string) *v1alpha1.StorageStateStatus {
	s := &v1alpha1.StorageStateStatus{
		CurrentStorageVersionHash: hash(current), CurrentVersion: current,
		LastHeartbeatTime: metav1.NewTime(now.Add(-5 * time.Minute)),
	}
	for _, v := range persisted {
		s.PersistedVersions = append(s.PersistedVersions, v)
		if v == v1alpha1.Unknown {
			s.PersistedStorageVersionHashes = append(s.PersistedStorageVersionHashes, v)
		} else {
			s.PersistedStorageVersionHashes = append(s.PersistedStorageVersionHashes, hash(v))
		}
	}
	return s
}

// workloads are a built-in resource with the given versions stored; the last one is written.
func workloads(persisted ...string) Facts {
	const group = "scheduling.k8s.io"
	h := func(v string) string { return hash(group, v, "Workload") }
	current := persisted[len(persisted)-1]
	return Facts{
		Resource: schema.GroupResource{Group: group, Resource: "workloads"}, Kind: "Workload",
		Current: schema.GroupVersion{Group: group, Version: current}, CurrentHash: h(current),
		State: state(h, current, persisted...),
	}
}

// verdict is what of a finding the tables compare.
type verdict struct {
	Verdict Verdict
	Why     string
	Next    string
	Source  Source
}

func of(f Finding) verdict { return verdict{f.Verdict, f.Why, f.Next, f.Source} }

// with edits a copy of a StorageState.
func with(f Facts, edit func(*v1alpha1.StorageStateStatus)) Facts {
	s := f.State.DeepCopy()
	edit(s)
	f.State = s
	return f
}

func TestWhatIsStoredDecides(t *testing.T) {
	const (
		request = "kube-migrator request widgets.demo.example.com"
		migrate = "kube-migrator migrate widgets.demo.example.com"
		inspect = "kubectl describe storagestates.migration.k8s.io widgets.demo.example.com"
		pods    = "kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator"
		etcd    = "kube-migrator check widgets.demo.example.com --snapshot FILE"
	)
	bare := question()
	bare.Installed = false
	anyAge := question()
	anyAge.AnyAge = true
	oneHour := question()
	oneHour.MaxAge = time.Hour
	aged := func(age, period time.Duration) Facts {
		return with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.LastHeartbeatTime, s.HeartbeatPeriodSeconds = metav1.NewTime(now.Add(-age)), int64(period.Seconds())
		})
	}
	recordedAt := func(uid string, generation int64) Facts {
		f := with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.Definition = &v1alpha1.RecordedDefinition{UID: uid, Generation: generation}
		})
		f.Definition.UID, f.Definition.Generation = "u", 7
		return f
	}
	builtIn := widgets()
	builtIn.Definition = nil
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
	}{
		"only the present version": {question(), widgets("v2"),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"an old one besides": {question(), widgets("v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				request, ByStorageState}},
		"Unknown": {question(), widgets("Unknown", "v2"),
			verdict{Undetermined, "its StorageState says Unknown: objects may be stored in versions that no one knows",
				request, ByStorageState}},
		"an empty record": {question(), with(widgets("v2"),
			func(s *v1alpha1.StorageStateStatus) { s.PersistedStorageVersionHashes = nil }),
			verdict{Undetermined, "its StorageState records no version yet", request, ByStorageState}},
		"no record": {question(), widgets(), verdict{Undetermined,
			"it has no StorageState: no one has recorded what is stored", request, ByNothing}},
		"servers that disagree": {question(), with(widgets("v1", "v2"), func(s *v1alpha1.StorageStateStatus) {
			s.CurrentStorageVersionHash = v1alpha1.Unknown
			s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual,
				Status:  metav1.ConditionFalse,
				Message: "api-0 encodes v1,\napi-1 v2"}}
		}), verdict{Unsafe, "the API servers disagree: api-0 encodes v1, api-1 v2", inspect, ByStorageState}},
		"servers that disagree, without a condition": {question(), with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.CurrentStorageVersionHash = v1alpha1.Unknown
			s.ServerStorageVersions = []v1alpha1.ServerEncodingVersion{{APIServerID: "a",
				EncodingVersionHash: widgetHash("v1")}, {APIServerID: "b", EncodingVersionHash: widgetHash("v2")}}
		}), verdict{Unsafe, "the API servers disagree", inspect, ByStorageState}},
		"a server that has never answered": {question(), with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.CurrentStorageVersionHash = v1alpha1.Unknown
			s.Conditions = []v1alpha1.Condition{{Type: v1alpha1.ConditionAllEncodingVersionsEqual,
				Status: metav1.ConditionUnknown, Message: "api-1 does not answer"}}
		}), verdict{Undetermined, "its StorageState does not say that the API servers agree on a version: api-1 does " +
			"not answer", request, ByStorageState}},
		"API servers that do not show their restarts": {question(), with(widgets("Unknown", "v2"), func(s *v1alpha1.StorageStateStatus) {
			s.CurrentStorageVersionHash = v1alpha1.Unknown
			s.Conditions = []v1alpha1.Condition{{
				Type: v1alpha1.ConditionAllEncodingVersionsEqual, Status: metav1.ConditionUnknown,
				Reason: v1alpha1.ReasonOnlySampled, Message: "the evidence is only Sampled",
			}}
		}), verdict{Undetermined, "its StorageState says Unknown: objects may be stored in versions that no one " +
			"knows; a migration could not be proven: the evidence is only Sampled",
			"kube-migrator install --min-evidence=sampled", ByStorageState}},
		"Unknown, and an old version besides": {question(), widgets("Unknown", "v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				request, ByStorageState}},
		"a server that was seen to write another version": {question(), with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) {
			s.ServerStorageVersions = []v1alpha1.ServerEncodingVersion{{APIServerID: "a",
				EncodingVersionHash: widgetHash("v1"), EncodingVersion: "v1"}}
		}), verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
			request, ByStorageState}},
		"a record that is behind what is written now": {question(),
			with(widgets("v1"), func(
				s *v1alpha1.StorageStateStatus,
			) {
				s.CurrentStorageVersionHash = widgetHash("v1")
			}),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				request, ByStorageState}},
		"a record that is too old": {question(), aged(18*time.Minute, 0),
			verdict{Undetermined, "its StorageState was last renewed 18m ago, and at most 17m was expected: what " +
				"happened since is unknown", pods, ByStorageState}},
		"a record as old as one of the default period can be": {question(), aged(17*time.Minute, 0),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record as old as one of its period can be": {question(), aged(47*time.Minute, 30*time.Minute),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record that is too old for its period": {question(), aged(48*time.Minute, 30*time.Minute),
			verdict{Undetermined, "its StorageState was last renewed 48m ago, and at most 47m was expected: what " +
				"happened since is unknown", pods, ByStorageState}},
		"a record that is late for its short period": {question(), aged(17*time.Minute, time.Second),
			verdict{Undetermined, "its StorageState was last renewed 17m ago, and at most 2m was expected: what " +
				"happened since is unknown", pods, ByStorageState}},
		"a record as old as the user bears": {oneHour, aged(time.Hour, time.Second),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record of this CustomResourceDefinition": {question(), recordedAt("u", 7),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record of an earlier generation": {question(), recordedAt("u", 6),
			verdict{Undetermined, "its CustomResourceDefinition has changed since the StorageState was renewed",
				pods, ByStorageState}},
		"a record of another CustomResourceDefinition": {question(), recordedAt("v", 7),
			verdict{Undetermined, "its CustomResourceDefinition has changed since the StorageState was renewed",
				pods, ByStorageState}},
		"a record without a heartbeat": {question(),
			with(widgets("v2"), func(s *v1alpha1.StorageStateStatus) { s.LastHeartbeatTime = metav1.Time{} }),
			verdict{Undetermined, "its StorageState does not say when the API servers were last asked",
				pods, ByStorageState}},
		"a record of any age": {anyAge, aged(100*time.Hour, 0),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record that is old and unsafe": {question(),
			with(widgets("v1", "v2"), func(s *v1alpha1.StorageStateStatus) { s.LastHeartbeatTime = metav1.Time{} }),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				request, ByStorageState}},
		"names that do not fit the hashes are not trusted": {question(),
			with(widgets("v1", "v2"), func(s *v1alpha1.StorageStateStatus) { s.PersistedVersions = []string{"v2"} }),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2",
				request, ByStorageState}},
		"a resource that is gone": {question(), func() Facts {
			f := widgets("v2")
			f.Gone,
				f.CurrentHash = true, ""
			return f
		}(),
			verdict{Undetermined, "the API server does not serve it: what is still stored is unknown", "",
				ByStorageState}},
		"no version shown": {question(), func() Facts { f := widgets("v2"); f.CurrentHash = ""; return f }(),
			verdict{Undetermined, "its API server does not show in which version it stores it", etcd, ByStorageState}},
		"nothing is stored": {question(),
			Facts{Resource: schema.GroupResource{Resource: "bindings"}, NotStored: true},
			verdict{Safe, "nothing is stored", "", ByNothing}},
		"not installed, old versions": {bare, widgets(),
			verdict{Unsafe, "its CustomResourceDefinition claims that objects are stored as v1, not only as v2",
				migrate, ByStoredVersions}},
		"not installed, one version": {bare,
			func() Facts { f := widgets(); f.Definition.StoredVersions = []string{"v2"}; return f }(),
			verdict{Safe, "everything is stored as v2", "", ByStoredVersions}},
		"not installed, none claimed": {bare,
			func() Facts { f := widgets(); f.Definition.StoredVersions = nil; return f }(),
			verdict{Undetermined, "its CustomResourceDefinition claims no stored version yet", etcd, ByNothing}},
		"not installed, built in": {bare, builtIn,
			verdict{Undetermined, "nothing records in which versions it is stored", etcd, ByNothing}},
		"not installed, no objects": {bare, func() Facts { f := builtIn; f.Empty = true; return f }(),
			verdict{Safe, "there are no objects", "", ByCount}},
		"installed, no record, no objects": {question(), func() Facts { f := builtIn; f.Empty = true; return f }(),
			verdict{Undetermined, "it has no StorageState: no one has recorded what is stored", request, ByNothing}},
		"it cannot be migrated": {question(), func() Facts { f := builtIn; f.Unfit = "no verb"; return f }(),
			verdict{Undetermined, "it cannot be migrated: no verb", etcd, ByNothing}},
		"a CRD that serves nothing": {question(),
			func() Facts { f := widgets(); f.Unfit = "it serves no version"; return f }(),
			verdict{Unsafe, "its CustomResourceDefinition claims that objects are stored as v1, not only as v2",
				"kubectl get widgets.demo.example.com --all-namespaces -o yaml", ByStoredVersions}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, of(test.question.Judge(test.facts))); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestATargetMustDecodeWhatIsStored(t *testing.T) {
	elsewhere := func(definitions map[schema.GroupResource]Definition) Question {
		q := going(t, "1.37")
		q.Target.Name, q.Target.Definitions = "new", definitions
		return q
	}
	empty := workloads("v1alpha2")
	empty.Empty = true
	aggregated := widgets("v1", "v2")
	aggregated.Aggregated, aggregated.Definition = true, nil
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
		stranded []string
	}{
		"several versions of a CRD that has them": {going(t, "1.36"), widgets("v1", "v2"),
			verdict{Safe, "its CustomResourceDefinition has v1, v2", "", ByStorageState}, nil},
		"a version that the CRD lacks": {going(t, "1.36"), widgets("v0", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v0, which its " +
				"CustomResourceDefinition does not have", "kube-migrator request widgets.demo.example.com",
				ByStorageState}, []string{"v0"}},
		"a version that the CRD of another cluster lacks": {
			elsewhere(map[schema.GroupResource]Definition{{Group: "demo.example.com",
				Resource: "widgets"}: {Group: "demo.example.com", Kind: "Widget",
				Versions: []string{"v2"}}}), widgets("v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, which its " +
				"CustomResourceDefinition at new does not have", "kube-migrator request widgets.demo.example.com",
				ByStorageState}, []string{"v1"}},
		"a version that is written now and not recorded": {
			elsewhere(map[schema.GroupResource]Definition{{Group: "demo.example.com",
				Resource: "widgets"}: {Group: "demo.example.com", Kind: "Widget", Versions: []string{"v1"}}}),
			with(widgets("v1"), func(
				s *v1alpha1.StorageStateStatus,
			) {
				s.CurrentStorageVersionHash = widgetHash("v1")
			}),
			verdict{Unsafe, "its StorageState says that objects may be stored as v2, which its " +
				"CustomResourceDefinition at new does not have",
				"kubectl get widgets.demo.example.com --all-namespaces -o yaml", ByStorageState}, []string{"v2"}},
		"another cluster without the CRD": {elsewhere(map[schema.GroupResource]Definition{}), widgets("v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v2, and new has no " +
				"CustomResourceDefinition of it", "kubectl get widgets.demo.example.com --all-namespaces -o yaml",
				ByStorageState}, []string{"v2"}},
		"an alpha version that 1.37 has dropped": {going(t, "v1.37.0"), workloads("v1alpha2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1alpha2, which Kubernetes 1.37 " +
				"cannot decode", "kubectl get workloads.scheduling.k8s.io --all-namespaces -o yaml",
				ByStorageState}, []string{"v1alpha2"}},
		"that version next to the new one": {going(t, "1.37"), workloads("v1alpha2", "v1beta1"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1alpha2, which Kubernetes 1.37 " +
				"cannot decode", "kube-migrator request workloads.scheduling.k8s.io",
				ByStorageState}, []string{"v1alpha2"}},
		"a downgrade that cannot decode what is written now": {going(t, "1.36"), workloads("v1beta1"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1beta1, which Kubernetes 1.36 " +
				"cannot decode", "kubectl get workloads.scheduling.k8s.io --all-namespaces -o yaml",
				ByStorageState}, []string{"v1beta1"}},
		"the same, without objects": {going(t, "1.37"), empty,
			verdict{Safe, "there are no objects", "", ByCount}, nil},
		"the release that has the version": {going(t, "1.36.3"), workloads("v1alpha2"),
			verdict{Safe, "Kubernetes 1.36 can decode v1alpha2", "", ByStorageState}, nil},
		"Unknown is unsafe whatever it can decode": {going(t, "1.36"), widgets("Unknown"),
			verdict{Undetermined, "its StorageState says Unknown: objects may be stored in versions that no one knows",
				"kube-migrator request widgets.demo.example.com", ByStorageState}, nil},
		"a resource that the release does not have": {going(t, "1.36"),
			func() Facts { f := widgets("v2"); f.Definition = nil; return f }(),
			verdict{Unsafe, "its StorageState says that objects may be stored as v2, and Kubernetes 1.36 does not " +
				"have the resource", "kubectl get widgets.demo.example.com --all-namespaces -o yaml",
				ByStorageState}, []string{"v2"}},
		"another API server's resource": {going(t, "1.36"), aggregated,
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2; its API server " +
				"is not a part of Kubernetes", "kube-migrator request widgets.demo.example.com",
				ByStorageState}, []string{"v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.question.Judge(test.facts)
			if diff := cmp.Diff(test.want, of(got)); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.stranded, got.Stranded); diff != "" {
				t.Errorf("stranded (-want +got):\n%s", diff)
			}
		})
	}
}

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
		stateRecord      = "storagestates.migration.k8s.io/widgets.demo.example.com"
		definitionRecord = "customresourcedefinitions.apiextensions.k8s.io/widgets.demo.example.com"
	)
	in := func(f Facts, claimed []string, h ...Held) Facts {
		f.Definition.StoredVersions, f.Held = claimed, h
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
			{Record: definitionRecord, Claims: []string{"v2"}, Missing: []string{"v0", "v1"}, Objects: 4,
				Next: "kube-migrator migrate widgets.demo.example.com"}}},
		"a resource that is gone, whose kind only etcd knows": {func() Facts {
			f := widgets("v2")
			f.Gone, f.Kind, f.Definition, f.Held = true, "", nil, []Held{held("v1", 3), held("v2", 1)}
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

func TestTheWorstFindingDecides(t *testing.T) {
	a, b, c := Finding{Resource: "a", Verdict: Safe}, Finding{Resource: "b", Verdict: Undetermined},
		Finding{Resource: "c", Verdict: Unsafe}
	applying := question()
	applying.Applying = true
	for name, test := range map[string]struct {
		question    Question
		findings    []Finding
		understated []Understatement
		scope       Scope
		verdict     Verdict
		sentence    string
	}{
		"all safe": {question(), []Finding{a}, nil, Scope{}, Safe,
			"An upgrade is safe now: everything is stored in the version that the API servers write."},
		"what is named is safe": {question(), []Finding{a}, nil, Scope{Named: true}, Safe,
			"An upgrade is safe now: everything of a is stored in the version that the API servers write."},
		"one unknown": {question(), []Finding{a, b}, nil, Scope{}, Undetermined,
			"Whether an upgrade is safe cannot be determined for b."},
		"one unsafe": {question(), []Finding{a, b, c}, nil, Scope{NotLookedAt: []string{"x"}}, Unsafe,
			"An upgrade is not safe now: c."},
		"a part not read": {question(), []Finding{a}, nil, Scope{NotLookedAt: []string{"x"}}, Undetermined,
			"Whether an upgrade is safe cannot be determined: a part of the cluster could not be read."},
		"a resource left out": {question(), []Finding{a}, nil, Scope{Excluded: []string{"x"}}, Safe,
			"An upgrade is safe now: everything is stored in the version that the API servers write. Not judged, " +
				"because the installation excludes them: x."},
		"a record that is less": {question(), []Finding{a}, []Understatement{{}}, Scope{}, Unsafe,
			"An upgrade is not safe now: a record claims less than etcd holds."},
		"a target": {going(t, "1.36"), []Finding{a}, nil, Scope{}, Safe,
			"Going to Kubernetes 1.36 is safe now: it can decode everything that is stored."},
		"an unsafe target": {going(t, "1.36"), []Finding{c}, nil, Scope{}, Unsafe,
			"Going to Kubernetes 1.36 is not safe now: c."},
		"CRDs": {applying, []Finding{a}, nil, Scope{}, Safe,
			"Applying is safe: every stored version stays readable."},
		"an unsafe definition": {applying, []Finding{c, c}, nil, Scope{}, Unsafe, "Applying is not safe: c."},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.question.Conclude(test.findings, test.understated, test.scope)
			if r.Verdict != test.verdict || r.Sentence != test.sentence {
				t.Errorf("got %s, %q, want %s, %q", r.Verdict, r.Sentence, test.verdict, test.sentence)
			}
		})
	}
	if r := question().Conclude([]Finding{a, b, c}, nil, Scope{}); r.Findings[0].Resource != "c" ||
		r.Findings[2].Resource != "a" {
		t.Errorf("the unsafe come first, then the unknown: %+v", r.Findings)
	}
}

// run is a migration of widgets: its spec.generation, the generation of its last run, and what is true of it.
func run(
	name string,
	generation, last int64,
	is v1alpha1.ConditionType,
	edits ...func(*v1alpha1.StorageVersionMigration),
) v1alpha1.StorageVersionMigration {
	m := v1alpha1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.StorageVersionMigrationSpec{Generation: generation, State: v1alpha1.StateActive},
		Status: v1alpha1.StorageVersionMigrationStatus{
			Run: v1alpha1.Run{Generation: last}, StorageVersionHash: widgetHash("v2"),
			Conditions: []v1alpha1.Condition{{Type: is, Status: metav1.ConditionTrue, Message: "so it is"}},
		},
	}
	if is == v1alpha1.ConditionSucceeded {
		m.Status.CompletedGeneration = last
	}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

func TestAMigrationSaysWhatIsBeingDoneAndProvesNothing(t *testing.T) {
	const unknown = "its StorageState says Unknown: objects may be stored in versions that no one knows"
	cancelled := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StateCancelled }
	paused := func(m *v1alpha1.StorageVersionMigration) { m.Spec.State = v1alpha1.StatePaused }
	made := func(at time.Duration) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.CreationTimestamp = metav1.NewTime(now.Add(at)) }
	}
	to := func(version string) func(*v1alpha1.StorageVersionMigration) {
		return func(m *v1alpha1.StorageVersionMigration) { m.Status.StorageVersionHash = widgetHash(version) }
	}
	permitted := func(status metav1.ConditionStatus) Facts {
		f := widgets("Unknown")
		f.State.Conditions = append(
			f.State.Conditions,
			v1alpha1.Condition{Type: v1alpha1.ConditionPermitted, Status: status},
		)
		return f
	}
	byHand := permitted(metav1.ConditionFalse)
	byHand.State.Conditions[len(byHand.State.Conditions)-1].Reason = v1alpha1.ReasonByHand
	type all = []v1alpha1.StorageVersionMigration
	for name, test := range map[string]struct {
		facts      Facts
		migrations all
		verdict    Verdict
		run        Run
		migration  string
		why, next  string
	}{
		"an administrator migrates it": {byHand, nil, Undetermined, NotRequested, "",
			unknown + "; its migration is left to an administrator, because no admission policy can guard it against " +
				"a worker", "kube-migrator migrate widgets.demo.example.com"},
		"none": {widgets("Unknown"), nil, Undetermined, NotRequested, "", unknown,
			"kube-migrator request widgets.demo.example.com"},
		"one that has not begun": {widgets("Unknown"), all{run("m", 2, 1, v1alpha1.ConditionSucceeded)},
			Undetermined, NotBegun, "m", unknown + "; its migration has not begun", "kube-migrator wait m"},
		"one that is at work": {widgets("v1", "v2"), all{run("m", 1, 1, v1alpha1.ConditionReconciling)},
			Unsafe, AtWork, "m", "its StorageState says that objects may be stored as v1, not only as v2; its " +
				"migration is not finished: so it is", "kube-migrator wait m"},
		"one that is paused": {widgets("Unknown"),
			all{run("m", 1, 1, v1alpha1.ConditionRunning, paused)}, Undetermined, Paused, "m", unknown +
				"; its migration is paused", "kube-migrator resume m"},
		"one that was cancelled": {widgets("Unknown"),
			all{run("m", 1, 1, v1alpha1.ConditionRunning, cancelled)}, Undetermined, WasCancelled, "m", unknown +
				"; its migration was cancelled", "kube-migrator request widgets.demo.example.com"},
		"none, and the worker may not": {permitted(metav1.ConditionFalse), nil, Undetermined,
			NotRequested, "", unknown + "; it cannot be migrated: the worker's permissions do not cover it",
			"kube-migrator install"},
		"one that began before the worker might not": {permitted(metav1.ConditionFalse),
			all{run("m", 1, 1, v1alpha1.ConditionReconciling)}, Undetermined, AtWork, "m", unknown +
				"; its migration is not finished: so it is", "kube-migrator wait m"},
		"none, and the worker may": {permitted(metav1.ConditionTrue), nil, Undetermined, NotRequested,
			"", unknown, "kube-migrator request widgets.demo.example.com"},
		"one that has failed": {widgets("Unknown"), all{run("m", 1, 1, v1alpha1.ConditionFailed)},
			Undetermined, HasFailed, "m", unknown + "; its migration failed: so it is",
			"kubectl describe storageversionmigrations.migration.k8s.io m"},
		"a failure that is past": {widgets("Unknown"), all{run("m", 2, 1, v1alpha1.ConditionFailed)},
			Undetermined, NotBegun, "m", unknown + "; its migration has not begun", "kube-migrator wait m"},
		"a success that proved nothing": {widgets("Unknown"), all{run("m", 1, 1, v1alpha1.ConditionSucceeded)},
			Undetermined, HasSucceeded, "m", unknown, "kube-migrator request widgets.demo.example.com"},
		"a success without a record": {widgets(), all{run("m", 1, 1, v1alpha1.ConditionSucceeded)}, Undetermined,
			HasSucceeded, "m", "it has no StorageState: no one has recorded what is stored",
			"kube-migrator request widgets.demo.example.com"},
		"a failure after a proof": {widgets("v2"), all{run("m", 1, 1, v1alpha1.ConditionFailed)}, Safe,
			HasFailed, "m", "everything is stored as v2", ""},
		"another run after a proof": {widgets("v2"), all{run("m", 2, 1, v1alpha1.ConditionSucceeded)}, Safe,
			NotBegun, "m", "everything is stored as v2", ""},
		"what is not finished counts before what is": {widgets("v2"),
			all{run("done", 1, 1, v1alpha1.ConditionSucceeded, made(0)),
				run("runs", 1, 1, v1alpha1.ConditionRunning, made(-time.Hour))},
			Safe, AtWork, "runs", "everything is stored as v2", ""},
		"a success counts before a newer failure": {widgets("v2"),
			all{run("failed", 1, 1, v1alpha1.ConditionFailed, made(0)),
				run("done", 1, 1, v1alpha1.ConditionSucceeded, made(-time.Hour))},
			Safe, HasSucceeded, "done", "everything is stored as v2", ""},
		"the newest of successes with old versions": {widgets("v2"),
			all{run("a", 1, 1, v1alpha1.ConditionSucceeded, to("v1"), made(-time.Hour)),
				run("b", 1, 1, v1alpha1.ConditionSucceeded, to("v1"), made(0))}, Safe, HasSucceeded, "b",
			"everything is stored as v2", ""},
		"a resource that is gone": {Facts{Resource: schema.GroupResource{Resource: "gadgets"}, Gone: true},
			all{run("m", 1, 1, v1alpha1.ConditionRunning)}, Undetermined, AtWork, "m",
			"the API server does not serve it: what is still stored is unknown", "kube-migrator cancel m"},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.Migrations = test.migrations
			got := question().Judge(test.facts)
			want := Finding{Verdict: test.verdict, Run: test.run, Migration: test.migration,
				Why: test.why, Next: test.next}
			if diff := cmp.Diff(want, Finding{Verdict: got.Verdict, Run: got.Run, Migration: got.Migration,
				Why: got.Why, Next: got.Next}); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
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
