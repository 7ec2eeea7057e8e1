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

// widgets are written as v2; their crd has v1 and v2, and claims both.
func widgets(persisted ...string) Facts {
	f := Facts{
		Resource: schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}, Kind: "Widget",
		CRD: &CRD{Group: "demo.example.com", Kind: "Widget", Versions: []string{"v1", "v2"},
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
		future  = "its StorageState was last renewed 6h0m in the future: the clock of this machine or of the controller is " +
			"wrong, and whether the controller still works is unknown"
		pods = "kubectl get pods --all-namespaces -l app.kubernetes.io/name=kube-migrator"
		etcd = "kube-migrator check widgets.demo.example.com --snapshot FILE"
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
			s.Definition = &v1alpha1.RecordedCRD{UID: uid, Generation: generation}
		})
		f.CRD.UID, f.CRD.Generation = "u", 7
		return f
	}
	builtIn := widgets()
	builtIn.CRD = nil
	keyless := widgets("v2")
	keyless.Unreadable = "no key"
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
	}{
		"the present version, and objects that cannot be listed": {question(), keyless, verdict{Undetermined,
			"its objects cannot be listed: no key", "kubectl describe customresourcedefinition widgets.demo.example.com",
			ByStorageState}},
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
			"kube-migrator install --min-evidence=verified", ByStorageState}},
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
		"a record of a clock that is a bit ahead": {question(), aged(-2*time.Minute, 0),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
		"a record of a clock that is hours ahead": {question(), aged(-6*time.Hour, 0), verdict{Undetermined, future, pods,
			ByStorageState}},
		"a record of a clock that is hours ahead, and an age that the user bears": {oneHour, aged(-6*time.Hour, 0),
			verdict{Undetermined, future, pods, ByStorageState}},
		"a record of a clock that is hours ahead, and any age": {anyAge, aged(-6*time.Hour, 0),
			verdict{Safe, "everything is stored as v2", "", ByStorageState}},
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
			func() Facts { f := widgets(); f.CRD.StoredVersions = []string{"v2"}; return f }(),
			verdict{Safe, "everything is stored as v2", "", ByStoredVersions}},
		"not installed, none claimed": {bare,
			func() Facts { f := widgets(); f.CRD.StoredVersions = nil; return f }(),
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
	elsewhere := func(crds map[schema.GroupResource]CRD) Question {
		q := going(t, "1.37")
		q.Target.Name, q.Target.CRDs = "new", crds
		return q
	}
	empty := workloads("v1alpha2")
	empty.Empty = true
	aggregated := widgets("v1", "v2")
	aggregated.Aggregated, aggregated.CRD = true, nil
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
			elsewhere(map[schema.GroupResource]CRD{{Group: "demo.example.com",
				Resource: "widgets"}: {Group: "demo.example.com", Kind: "Widget",
				Versions: []string{"v2"}}}), widgets("v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, which its " +
				"CustomResourceDefinition at new does not have", "kube-migrator request widgets.demo.example.com",
				ByStorageState}, []string{"v1"}},
		"a version that is written now and not recorded": {
			elsewhere(map[schema.GroupResource]CRD{{Group: "demo.example.com",
				Resource: "widgets"}: {Group: "demo.example.com", Kind: "Widget", Versions: []string{"v1"}}}),
			with(widgets("v1"), func(
				s *v1alpha1.StorageStateStatus,
			) {
				s.CurrentStorageVersionHash = widgetHash("v1")
			}),
			verdict{Unsafe, "its StorageState says that objects may be stored as v2, which its " +
				"CustomResourceDefinition at new does not have",
				"kubectl get widgets.demo.example.com --all-namespaces -o yaml", ByStorageState}, []string{"v2"}},
		"another cluster without the CRD": {elsewhere(map[schema.GroupResource]CRD{}), widgets("v2"),
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
			func() Facts { f := widgets("v2"); f.CRD = nil; return f }(),
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
