// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var widgetResource = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"}

func widgetVersions(names ...string) (all []schema.GroupVersion) {
	for _, name := range names {
		all = append(all, schema.GroupVersion{Group: "demo.example.com", Version: name})
	}
	return all
}

func TestWhatAnAggregatedAPIServerDeclaresDecides(t *testing.T) {
	const (
		request = "kube-migrator request widgets.demo.example.com"
		inspect = "kubectl get widgets.demo.example.com --all-namespaces -o yaml"
	)
	// stored: the versions in which the resource may be stored, the last of which is written. now: what the present
	// API servers declare.
	stored := func(now []schema.GroupVersion, versions ...string) Facts {
		f := widgets(versions...)
		f.Aggregated, f.CRD, f.Decodable = true, nil, now
		return f
	}
	opaque := stored(nil, "v2")
	opaque.Current, opaque.CurrentHash = schema.GroupVersion{}, "as-the-author-likes"
	opaque.State.PersistedVersions, opaque.State.CurrentVersion = []string{"as-the-author-likes"}, ""
	opaque.State.PersistedStorageVersionHashes = []string{"as-the-author-likes"}
	opaque.State.CurrentStorageVersionHash = "as-the-author-likes"
	opaqueAndEmpty := opaque
	opaqueAndEmpty.Empty = true
	server := func(versions ...string) Question {
		q := going(t, "1.37")
		q.Target.Name, q.Target.CRDs = "new", map[schema.GroupResource]CRD{}
		q.Target.Aggregated = map[schema.GroupResource][]schema.GroupVersion{widgetResource: widgetVersions(versions...)}
		return q
	}
	silent := server()
	silent.Target.Aggregated = nil
	for name, test := range map[string]struct {
		question Question
		facts    Facts
		want     verdict
		stranded []string
	}{
		"an upgrade of Kubernetes, with several stored versions that the present API servers decode": {
			going(t, "1.36"), stored(widgetVersions("v1", "v2"), "v1", "v2"),
			verdict{Safe, "its API servers declare that they can decode v1, v2; they are not a part of Kubernetes", "",
				ByStorageState}, nil},
		"an upgrade of Kubernetes, with a stored version that the present API servers cannot decode": {
			going(t, "1.36"), stored(widgetVersions("v2"), "v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, which its API servers do not " +
				"declare that they can decode", request, ByStorageState}, []string{"v1"}},
		"an upgrade of Kubernetes, without declarations": {going(t, "1.36"), stored(nil, "v2"),
			verdict{Safe, "everything is stored as v2; its API server is not a part of Kubernetes", "",
				ByStorageState}, nil},
		"API servers of a target that decode everything": {server("v1", "v2", "v3"), stored(nil, "v1", "v2"),
			verdict{Safe, "its API servers at new declare that they can decode v1, v2", "", ByStorageState}, nil},
		"API servers of a target that have dropped an old version": {
			server("v2", "v3"), stored(widgetVersions("v1", "v2"), "v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, which its API servers at new do " +
				"not declare that they can decode", request, ByStorageState}, []string{"v1"}},
		"a downgrade to API servers that do not know the version that is written now": {
			server("v1"), stored(widgetVersions("v1", "v2"), "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v2, which its API servers at new do " +
				"not declare that they can decode", inspect, ByStorageState}, []string{"v2"}},
		"a target whose API servers declare nothing": {silent, stored(nil, "v2"),
			verdict{Safe, "everything is stored as v2; its API server is not a part of Kubernetes", "",
				ByStorageState}, nil},
		"a hash that only its author knows": {server("v1"), opaque,
			verdict{Undetermined, "its API servers at new declare versions, and the hash as-the-author-likes is that " +
				"of none that is known", "kube-migrator check widgets.demo.example.com --snapshot FILE",
				ByStorageState}, nil},
		"a hash that only its author knows, and no objects": {server("v1"), opaqueAndEmpty,
			verdict{Safe, "there are no objects", "", ByCount}, nil},
		"without a target only the present version is wanted": {
			question(), stored(widgetVersions("v1", "v2"), "v1", "v2"),
			verdict{Unsafe, "its StorageState says that objects may be stored as v1, not only as v2", request,
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

func TestDeclarationsAreWhatAllServersOfAResourceCanDecode(t *testing.T) {
	got, err := Declared([]byte(`{"items":[
		{"metadata":{"name":"demo.example.com.widgets"},"status":{"storageVersions":[
			{"apiServerID":"a","encodingVersion":"demo.example.com/v2","decodableVersions":["demo.example.com/v1","demo.example.com/v2"]},
			{"apiServerID":"b","encodingVersion":"demo.example.com/v2","decodableVersions":["demo.example.com/v2","demo.example.com/v3"]}]}},
		{"metadata":{"name":"demo.example.com.gone"},"status":{}},
		{"metadata":{"name":"core.pods"},"status":{"storageVersions":[
			{"apiServerID":"a","encodingVersion":"v1","decodableVersions":["v1"]}]}}]}`))
	want := map[schema.GroupResource][]schema.GroupVersion{
		widgetResource: widgetVersions("v2"), {Resource: "pods"}: {{Version: "v1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Declared([]byte(`{"items":[{"metadata":{"name":"a.b"},"status":{"storageVersions":[
		{"decodableVersions":["a/b/c"]}]}}]}`)); err == nil {
		t.Error("a version that is not one is accepted")
	}
}
