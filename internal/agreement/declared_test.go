// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

// named is twoLive with names of Leases, in addition to two servers of another kind.
var named = snapshot.Leases{
	Known: true,
	Live: []snapshot.Server{
		{Name: "a", Holder: "a_1", Host: "api-1", Kind: identity.KubeAPIServer},
		{Name: "b", Holder: "b_1", Host: "api-2", Kind: identity.KubeAPIServer},
	},
	Others: []snapshot.Server{{Name: "c", Kind: "flunders"}, {Name: "d", Kind: "flunders"}, {Name: "e", Kind: "fischers"}},
}

func declares(api string, entries ...string) snapshot.StorageVersion {
	d := snapshot.StorageVersion{API: api, ID: "u/1"}
	for _, e := range entries {
		id, version, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, snapshot.Entry{Server: id, Version: version})
	}
	return d
}

func TestWhenStorageVersionsAreAgreement(t *testing.T) {
	const v1, v1beta2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
	hash := hashOf(deviceClasses, "v1")
	both := declares(snapshot.KubernetesAPI, "a="+v1, "b="+v1)
	aggregatedTarget := deviceClasses
	aggregatedTarget.Origin = migrate.Aggregated
	pods := &snapshot.Service{Name: "v1.x", ID: "u/1", Processes: []snapshot.Process{
		{Address: "192.0.2.21:443", Pod: "p"}, {Address: "192.0.2.22:443", Pod: "q"},
	}}

	for name, tt := range map[string]struct {
		change   func(*findings)
		evidence migrate.Evidence // 0: there is to be a disagreement
		why      string           // why the objects do not count
	}{
		"its servers are exactly those that live, and publish": {func(*findings) {}, migrate.Declared, ""},
		"a live server has no entry": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1)}
		}, migrate.Observed, "the StorageVersion names 1 API server, and identity Leases show 2"},
		"a server that is gone has one still, of another version": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1, "b="+v1, "c="+v1beta2)}
		}, migrate.Observed, "the StorageVersion names 3 API servers, and identity Leases show 2"},
		"as many entries, but another server": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1, "c="+v1)}
		}, migrate.Observed, "the StorageVersion names 2 API servers, and identity Leases show 2"},
		"one server has left its entry behind and publishes no more": {func(f *findings) {
			f.publishing, f.notPublishing = false, "api-2 does not"
		}, migrate.Observed, "api-2 does not"},
		"two processes renew one Lease": {func(f *findings) { f.leases.Doubled = "a" },
			migrate.Observed, "two API servers renew the identity Lease a"},
		"Leases may not be read": {func(f *findings) { f.leases = snapshot.Leases{Why: "no Leases"} },
			migrate.Observed, "no Leases"},
		"the entries differ": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1, "b="+v1beta2)}
		}, 0, ""},
		"the servers show another version than they publish": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1beta2, "b="+v1beta2)}
		}, 0, ""},
		"a kube-apiserver does not publish in our API": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{declares(snapshot.OurAPI, "a="+v1, "b="+v1)}
		}, migrate.Observed, "the servers of this resource do not publish in migration.k8s.io"},
		"a custom resource is never covered": {func(f *findings) { f.target.Origin = migrate.Custom }, migrate.Observed,
			"StorageVersions do not cover custom resources"},
		"discovery shows no hash: what is declared tells": {func(f *findings) {
			f.reports[0].answers = said("", "")
		}, migrate.Declared, ""},
		"one server shows a hash, the other none": {func(f *findings) {
			f.reports[0].answers = said(hash, "")
		}, migrate.Declared, ""},
		"one server shows another hash than is declared, the other none": {func(f *findings) {
			f.reports[0].answers = said("", hashOf(deviceClasses, "v1beta2"))
		}, 0, ""},
		"discovery shows no hash, and the entries differ": {func(f *findings) {
			f.reports[0].answers = said("", "")
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1, "b="+v1beta2)}
		}, 0, ""},
		"discovery shows no hash, and what one declares cannot be read": {func(f *findings) {
			f.reports[0].answers = said("", "")
			f.declarations = []snapshot.StorageVersion{declares(snapshot.KubernetesAPI, "a="+v1, "b=a/b/c")}
		}, 0, ""},
		"a server does not serve the resource": {func(f *findings) {
			f.reports[0].answers = []answer{{server: "api-1", served: true}, {server: "api-2"}}
		}, 0, ""},
		"aggregated servers publish in our API, and keep Leases": {func(f *findings) {
			f.target, f.service = aggregatedTarget, pods
			f.declarations = []snapshot.StorageVersion{declares(snapshot.OurAPI, "c="+v1, "d="+v1)}
		}, migrate.Declared, ""},
		"an aggregated server is missing": {func(f *findings) {
			f.target, f.service = aggregatedTarget, pods
			f.declarations = []snapshot.StorageVersion{declares(snapshot.OurAPI, "c="+v1)}
		}, migrate.Observed, "the StorageVersion names 1 API server, and identity Leases show 2"},
		"more are behind the APIService than publish": {func(f *findings) {
			f.target, f.service = aggregatedTarget, &snapshot.Service{Processes: make([]snapshot.Process, 3)}
			f.declarations = []snapshot.StorageVersion{declares(snapshot.OurAPI, "c="+v1, "d="+v1)}
		}, migrate.Observed, "the number of servers behind the APIService is unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			f := findings{
				target: deviceClasses, versions: []string{"v1"}, leases: named, publishing: true,
				declarations: []snapshot.StorageVersion{both},
				reports:      []report{{answers: said(hash, hash), evidence: migrate.Observed, how: "each"}},
			}
			tt.change(&f)
			v := f.verdict()
			if v.Evidence != tt.evidence || v.Disagree != (tt.evidence == 0) || (v.Epoch != nil) != (tt.evidence > 0) {
				t.Fatalf("the verdict is %+v, want evidence %v", v, tt.evidence)
			}
			if tt.evidence == 0 {
				return
			}
			if v.Why != tt.why {
				t.Errorf("why = %q, want %q", v.Why, tt.why)
			}
			if declared := v.Epoch.Declared != ""; declared != (tt.evidence == migrate.Declared) {
				t.Errorf("the epoch rests on the object %q", v.Epoch.Declared)
			}
			// Any version in an entry may have been written.
			for _, d := range f.declarations {
				for _, e := range d.Entries {
					if !slices.Contains(v.Hashes, e.Hash("DeviceClass")) ||
						!slices.ContainsFunc(v.Servers, func(s Server) bool { return s.ID == e.Server && s.Declared }) {
						t.Errorf("%+v is missing among the hashes %v or the servers %+v", e, v.Hashes, v.Servers)
					}
				}
			}
		})
	}
}

func TestWithoutAHashWhatDoesNotCountAsDeclaredIsNoAgreement(t *testing.T) {
	entries := declares(snapshot.KubernetesAPI, "a=resource.k8s.io/v1", "b=resource.k8s.io/v1")
	for name, f := range map[string]findings{
		"no server declares":                   {},
		"the servers are not known to publish": {declarations: []snapshot.StorageVersion{entries}, notPublishing: "x"},
		"the entries are those of another server": {declarations: []snapshot.StorageVersion{declares(snapshot.KubernetesAPI,
			"a=resource.k8s.io/v1")}, publishing: true},
		"the kind is not known": {declarations: []snapshot.StorageVersion{entries}, publishing: true,
			target: migrate.Target{Resource: deviceClasses.Resource, Origin: migrate.BuiltIn}},
	} {
		t.Run(name, func(t *testing.T) {
			if f.target.Resource.Empty() {
				f.target = deviceClasses
			}
			f.versions, f.leases = []string{"v1"}, named
			f.reports = []report{{answers: said("", ""), evidence: migrate.Observed, how: "each"}}
			if v, err := combine(f); err == nil {
				t.Errorf("the epoch is %+v, want none", v.epoch)
			}
			if v := f.verdict(); v.Epoch != nil || v.Disagree {
				t.Errorf("the verdict is %+v, want no epoch and no disagreement", v)
			}
		})
	}
}

func TestWhetherOnlyOneVersionCanBeDecoded(t *testing.T) {
	const v1, v1beta2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
	hash := hashOf(deviceClasses, "v1")
	decoding := func(a, b []string) snapshot.StorageVersion {
		return snapshot.StorageVersion{API: snapshot.KubernetesAPI, ID: "u/1", Entries: []snapshot.Entry{
			{Server: "a", Version: v1, Decodable: a}, {Server: "b", Version: v1, Decodable: b},
		}}
	}
	alone := decoding([]string{v1}, []string{v1})
	for name, tt := range map[string]struct {
		change func(*findings)
		want   bool
	}{
		"each server declares it": {func(*findings) {}, true},
		"one of them can decode another version": {
			func(f *findings) {
				f.declarations = []snapshot.StorageVersion{decoding([]string{v1}, []string{v1, v1beta2})}
			}, false,
		},
		"one of them decodes another version, and not the one that it writes": {func(f *findings) {
			f.declarations = []snapshot.StorageVersion{decoding([]string{v1}, []string{v1beta2})}
		}, false},
		"one of them does not say": {func(f *findings) { f.declarations = []snapshot.StorageVersion{decoding([]string{v1}, nil)} },
			false},
		"a live server has no entry": {func(f *findings) {
			f.leases = snapshot.Leases{Known: true, Live: append(slices.Clone(named.Live), snapshot.Server{Name: "x", Holder: "x_1"})}
		}, false},
		"a server that departed serves still": {
			func(f *findings) {
				f.leases = named.Including(snapshot.Absent{Serving: []snapshot.Server{{Name: "x", Holder: "x_1"}}})
			}, false,
		},
		"the servers are not known to publish": {func(f *findings) {
			f.publishing,
				f.notPublishing = false, "x"
		}, false},
		"servers came or went during the look": {func(f *findings) { f.moved = true }, false},
		"one shows another hash": {func(f *findings) { f.reports[0].answers = said(hash, "other") },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			f := findings{
				target: deviceClasses, versions: []string{"v1"}, leases: named, publishing: true,
				declarations: []snapshot.StorageVersion{alone},
				reports:      []report{{answers: said(hash, hash), evidence: migrate.Observed, how: "each"}},
			}
			tt.change(&f)
			if v := f.verdict(); v.OnlyDecodable != tt.want {
				t.Errorf("only decodable: %t, want %t, in %+v", v.OnlyDecodable, tt.want, v)
			}
		})
	}
}

func TestNamesOfStorageVersions(t *testing.T) {
	for name, want := range map[string]schema.GroupResource{
		"core.pods":                     {Resource: "pods"},
		"apps.deployments":              {Group: "apps", Resource: "deployments"},
		"resource.k8s.io.deviceclasses": {Group: "resource.k8s.io", Resource: "deviceclasses"},
	} {
		if got := storageversion.ResourceOf(name); got != want || storageversion.ObjectName(got) != name {
			t.Errorf("%s is of %v, whose object is named %s", name, got, storageversion.ObjectName(got))
		}
	}
	if got := (snapshot.Entry{Version: "v1"}).Hash("Event"); got != "r2yiGXH7wu8=" {
		t.Errorf("the hash of the core group's events is %s", got)
	}
}
