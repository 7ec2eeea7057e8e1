// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/discovery"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// listing is a resource as discovery shows it: group/version, plural, Kind, the GVK it is stored as, verbs.
type listing struct {
	gv, plural, kind, stored, verbs string
}

const allVerbs = "create,delete,get,list,patch,update,watch"

// factsOf is a cluster whose discovery shows the listings in this order.
func factsOf(listings ...listing) *facts {
	f := &facts{resources: map[schema.GroupVersion][]metav1.APIResource{}, crdsKnown: true}
	for _, l := range listings {
		gv, _ := schema.ParseGroupVersion(l.gv)
		i := slices.IndexFunc(f.groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
		if i < 0 {
			i = len(f.groups)
			f.groups = append(f.groups, metav1.APIGroup{Name: gv.Group})
		}
		if f.resources[gv] == nil {
			f.groups[i].Versions = append(f.groups[i].Versions, metav1.GroupVersionForDiscovery{Version: gv.Version})
		}
		r := metav1.APIResource{Name: l.plural, SingularName: strings.ToLower(l.kind), Kind: l.kind,
			Verbs: strings.Split(l.verbs, ",")}
		if l.stored != "" {
			stored, _ := schema.ParseGroupVersion(l.stored)
			r.StorageVersionHash = storageversion.Hash(stored.WithKind(l.kind))
		}
		f.resources[gv] = append(f.resources[gv], r)
	}
	return f
}

// summary is one line for a resource: names, storage version, endpoint, problem.
func summary(r Resource) string {
	text := strings.Join(r.Names(), "=") + " stored as " + r.Storage() + " at " + r.Endpoint
	if r.Problem != nil {
		text += " " + string(r.Problem.Reason)
	}
	return text
}

func TestStorageAndEndpointFollowFromDiscovery(t *testing.T) {
	for name, test := range map[string]struct {
		listings []listing
		want     []string
	}{
		"the endpoint is the storage version, not the preferred one": {
			[]listing{{"a.io/v2", "as", "A", "a.io/v1", allVerbs}, {"a.io/v1", "as", "A", "a.io/v1", allVerbs}},
			[]string{"as.a.io stored as v1 at v1"},
		},
		"a storage version that is not served has a usual name": {
			[]listing{{"a.io/v1", "as", "A", "a.io/v1beta2", allVerbs}},
			[]string{"as.a.io stored as v1beta2 at v1"},
		},
		"a version with an unusual name is not guessed": {
			[]listing{{"a.io/v1", "as", "A", "a.io/v20190101", allVerbs}},
			[]string{"as.a.io stored as  at v1"},
		},
		"a storage version that cannot be patched is not the endpoint": {
			[]listing{{"a.io/v2", "as", "A", "a.io/v2", "get,list"}, {"a.io/v1", "as", "A", "a.io/v2", allVerbs}},
			[]string{"as.a.io stored as v2 at v1"},
		},
		"two groups with one hash are one resource, named by the group it is stored in": {
			[]listing{{"a.io/v1", "as", "A", "b.io/v1", allVerbs}, {"b.io/v1", "as", "A", "b.io/v1", allVerbs}},
			[]string{"as.b.io=as.a.io stored as v1 at v1"},
		},
		"two groups with one hash, stored in a third that is gone, are named by the first": {
			[]listing{{"a.io/v1", "as", "A", "old.io/v1", allVerbs}, {"b.io/v1", "as", "A", "old.io/v1", allVerbs}},
			[]string{"as.a.io=as.b.io stored as  at v1"},
		},
		"two groups with one hash, the storing one unable to patch, are named by the other": {
			[]listing{{"a.io/v1", "as", "A", "b.io/v1", allVerbs}, {"b.io/v1", "as", "A", "b.io/v1", "list"}},
			[]string{"as.a.io=as.b.io stored as b.io/v1 at v1"},
		},
		"one kind in two groups with two hashes is two resources": {
			[]listing{{"a.io/v1", "as", "A", "a.io/v1", allVerbs}, {"b.io/v1", "as", "A", "b.io/v1", allVerbs}},
			[]string{"as.a.io stored as v1 at v1", "as.b.io stored as v1 at v1"},
		},
		"one hash under two plurals is two resources": {
			[]listing{{"a.io/v1", "as", "A", "a.io/v1", allVerbs}, {"b.io/v1", "bs", "A", "a.io/v1", allVerbs}},
			[]string{"as.a.io stored as v1 at v1", "bs.b.io stored as a.io/v1 at v1"},
		},
		"resources without a hash are never shared": {
			[]listing{{"a.io/v1", "as", "A", "", allVerbs}, {"b.io/v1", "as", "A", "", allVerbs}},
			[]string{"as.a.io stored as  at v1 NoStorageVersionHash", "as.b.io stored as  at v1 NoStorageVersionHash"},
		},
		"what cannot be migrated says why": {
			[]listing{
				{"a.io/v1", "reviews", "R", "", "create"}, {"a.io/v1", "metrics", "M", "", "get,list"},
				{"a.io/v1", "blind", "B", "a.io/v1", "create,patch"},
				{"a.io/v1", "fixed", "F", "a.io/v1", "create,list"},
			},
			[]string{
				"reviews.a.io stored as  at  NotPersisted", "metrics.a.io stored as  at  NotPersisted",
				"blind.a.io stored as v1 at  NotListable", "fixed.a.io stored as v1 at  NotPatchable",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range assemble(factsOf(test.listings...)).Resources {
				got = append(got, summary(r))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheOriginOfAResourceIsWhatServesIt(t *testing.T) {
	f := factsOf(listing{"v1", "pods", "Pod", "v1", allVerbs}, listing{"c.io/v1", "cs", "C", "c.io/v1", allVerbs},
		listing{"a.io/v1", "as", "A", "", allVerbs})
	f.services = discovery.Services{{Group: "a.io", Version: "v1"}: {APIService: "v1.a.io", Name: "ns/a"}}
	f.crds = []customResource{
		{GroupResource: schema.GroupResource{Group: "c.io", Resource: "cs"}, Kind: "C", Served: true},
		{GroupResource: schema.GroupResource{Group: "a.io", Resource: "as"}, Kind: "A", Served: true},
	}
	inv := assemble(f)
	for name, want := range map[string]migrate.Origin{"pods": migrate.BuiltIn, "cs.c.io": migrate.Custom,
		"as.a.io": migrate.Aggregated} {
		r, err := inv.Find(name)
		if err != nil || r.Origin != want {
			t.Errorf("%s: origin %q, %v, want %q", name, r.Origin, err, want)
		}
	}
	if r, _ := inv.Find("as.a.io"); r.Service != "ns/a" || r.CRD != nil {
		t.Errorf("as.a.io: service %q, CRD %v", r.Service, r.CRD)
	}

	f.crdsKnown, f.crds = false, nil
	if r, _ := assemble(f).Find("pods"); r.Origin != "" {
		t.Errorf("origin %q without the CRDs, want none", r.Origin)
	}
}

func TestACRDThatDiscoveryDoesNotShowNamesTheFailure(t *testing.T) {
	f := factsOf()
	f.crds = []customResource{{GroupResource: schema.GroupResource{Group: "c.io", Resource: "cs"}, Kind: "C",
		Served: true, CRD: CRD{StorageVersion: "v1"}}}
	f.failures = []Failure{{What: "c.io/v1", Group: "c.io", Reason: "boom"},
		{What: "d.io/v1", Group: "d.io", Reason: "other"}}
	r := assemble(f).Resources[0]
	if r.Problem == nil || r.Problem.Reason != NotDiscovered || !strings.Contains(r.Problem.Message, "boom") ||
		strings.Contains(r.Problem.Message, "other") {
		t.Errorf("problem %+v", r.Problem)
	}
	if want := storageversion.Hash(schema.GroupVersionKind{Group: "c.io", Version: "v1",
		Kind: "C"}); r.StorageVersionHash != want {
		t.Errorf("hash %q, want %q", r.StorageVersionHash, want)
	}
}

func TestFailuresAreInTheOrderOfDiscoveryAndNameTheServer(t *testing.T) {
	f := &facts{
		groups: []metav1.APIGroup{
			{Name: "b.io", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}, {Version: "v2"}, {Version: "v0"}}},
			{Name: "a.io", Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}}},
		},
		services: discovery.Services{{Group: "a.io", Version: "v1"}: {APIService: "v1.a.io", Name: "ns/a",
			Unavailable: "no endpoints"}},
	}
	failed := discovery.Document{Err: errors.New("boom")}
	f.add(map[schema.GroupVersion]discovery.Document{
		{Group: "b.io", Version: "v2"}: failed, {Group: "b.io", Version: "v1"}: failed,
		{Group: "b.io", Version: "v0"}: {},
		{Group: "a.io", Version: "v1"}: failed,
	})
	want := []string{
		"b.io/v1 could not be read: boom", "b.io/v2 could not be read: boom",
		"a.io/v1 is served by the service ns/a, which does not answer: no endpoints",
	}
	var got []string
	for _, failure := range f.failures {
		got = append(got, failure.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestWithoutAHashTheStorageVersionIsTheDeclaredOne(t *testing.T) {
	declares := func(api, version string) declarations {
		return declarations{api: {{Group: "a.io", Resource: "as"}: {Group: "a.io", Version: version}}}
	}
	for name, test := range map[string]struct {
		hash     string // group/version that discovery shows
		declared declarations
		origin   migrate.Origin
		want     string
	}{
		"a built-in resource": {"", declares(kubernetesDeclares, "v1"), migrate.BuiltIn,
			"as.a.io stored as v1 at v1"},
		"an aggregated resource": {"", declares(weDeclare, "v1"), migrate.Aggregated,
			"as.a.io stored as v1 at v1"},
		"what discovery shows comes first": {"a.io/v2", declares(kubernetesDeclares, "v1"), migrate.BuiltIn,
			"as.a.io stored as v2 at v2"},
		"an API that is for other servers": {"", declares(weDeclare, "v1"), migrate.BuiltIn,
			"as.a.io stored as  at v2 NoStorageVersionHash"},
		"nothing is declared": {"", nil, migrate.BuiltIn, "as.a.io stored as  at v2 NoStorageVersionHash"},
	} {
		t.Run(name, func(t *testing.T) {
			f := factsOf(listing{"a.io/v2", "as", "A", test.hash, allVerbs},
				listing{"a.io/v1", "as", "A", test.hash, allVerbs})
			f.declared = test.declared
			if test.origin == migrate.Aggregated {
				f.services = discovery.Services{{Group: "a.io", Version: "v2"}: {Name: "a/b"}}
			}
			r := assemble(f).Resources[0]
			if diff := cmp.Diff(test.want, summary(r)); diff != "" {
				t.Errorf("the resource (-want +got):\n%s", diff)
			}
			if want := storageversion.Hash(r.StorageVersion.WithKind("A")); r.StorageVersion.Version != "" &&
				r.StorageVersionHash != want {
				t.Errorf("the hash is %q, want %q", r.StorageVersionHash, want)
			}
		})
	}
}

func TestWhatAStorageVersionObjectDeclares(t *testing.T) {
	for name, test := range map[string]struct {
		object   string
		resource schema.GroupResource
		version  schema.GroupVersion
	}{
		"all servers one version": {
			`{"metadata": {"name": "core.pods"}, "status": {"storageVersions": [{"encodingVersion": "v1"}, {"encodingVersion": "v1"}]}}`,
			schema.GroupResource{Resource: "pods"}, schema.GroupVersion{Version: "v1"},
		},
		"two versions": {
			`{"metadata": {"name": "a.io.as"}, "status": {"storageVersions": [{"encodingVersion": "a.io/v1"}, {"encodingVersion": "a.io/v2"}]}}`,
			schema.GroupResource{Group: "a.io", Resource: "as"}, schema.GroupVersion{},
		},
		"no server": {`{"metadata": {"name": "a.io.as"}}`, schema.GroupResource{Group: "a.io", Resource: "as"},
			schema.GroupVersion{}},
		"no version at all": {
			`{"metadata": {"name": "as"}, "status": {"storageVersions": [{"encodingVersion": "a/b/c"}]}}`,
			schema.GroupResource{Resource: "as"}, schema.GroupVersion{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var v storageVersion
			if err := json.Unmarshal([]byte(test.object), &v); err != nil {
				t.Fatal(err)
			}
			if resource := storageversion.ResourceOf(v.Metadata.Name); resource != test.resource || v.version() != test.version {
				t.Errorf("it declares %v of %v, want %v of %v", v.version(), resource, test.version, test.resource)
			}
		})
	}
}
