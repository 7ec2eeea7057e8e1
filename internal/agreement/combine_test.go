// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

var (
	deviceClasses = migrate.Target{
		Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
		Kind:     "DeviceClass", Origin: migrate.BuiltIn,
	}
	widgets = migrate.Target{
		Resource: schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"},
		Kind:     "Widget", Namespaced: true, Origin: migrate.Custom,
	}
	twoLive = snapshot.Leases{Known: true, Live: []snapshot.Server{
		{Holder: "a_1", Host: "api-1", Address: "192.0.2.11:6443"},
		{Holder: "b_1", Host: "api-2", Address: "192.0.2.12:6443"},
	}}
	oneLive = snapshot.Leases{Known: true, Live: []snapshot.Server{{Holder: "a_1", Host: "api-1"}}}
)

// hashOf returns the hash that discovery shows for a target that is stored in version.
func hashOf(t migrate.Target, version string) string {
	return storageversion.Hash(schema.GroupVersionKind{Group: t.Resource.Group, Version: version, Kind: t.Kind})
}

// said returns the answers of servers that all serve the resource, by hash.
func said(hashes ...string) []answer {
	names := []string{"api-1", "api-2", "api-3"}
	var list []answer
	for i, h := range hashes {
		list = append(list, answer{server: names[i], served: true, hash: h})
	}
	return list
}

// widgetCRD is a CRD that stores v2 and serves v1 and, if told so, v2.
func widgetCRD(storageServed bool) *crd.CRD {
	d := new(crd.CRD)
	d.Metadata.UID, d.Metadata.Generation = "u", 7
	d.Spec.Group, d.Spec.Names.Kind, d.Spec.Names.Plural = "demo.example.com", "Widget", "widgets"
	d.Spec.Versions = []crd.Version{{Name: "v1", Served: true}, {Name: "v2", Served: storageServed, Storage: true}}
	return d
}

func TestCombine(t *testing.T) {
	v1, v1beta2 := hashOf(deviceClasses, "v1"), hashOf(deviceClasses, "v1beta2")
	own := func(answers []answer) report {
		return report{answers: answers, evidence: migrate.Observed, how: "each"}
	}
	sample := func(answers []answer) report {
		return report{answers: answers, evidence: migrate.Sampled, how: "samples"}
	}

	for name, tt := range map[string]struct {
		in    findings
		epoch migrate.Epoch
		say   string
		// is and says are what the error is and contains, or zero if there is none
		is   error
		says []string
	}{
		"all servers show one hash": {
			in:    findings{target: deviceClasses, leases: twoLive, reports: []report{own(said(v1, v1))}},
			epoch: migrate.Epoch{Hash: v1, Servers: []string{"a_1", "b_1"}, Evidence: migrate.Observed},
			say:   "Observed: 2 API servers, each",
		},
		"samples agree while own addresses are silent": {
			in: findings{target: deviceClasses, leases: twoLive, reports: []report{
				{why: "2 of 2 servers' own addresses do not answer"}, sample(said(v1, v1)),
			}},
			epoch: migrate.Epoch{Hash: v1, Servers: []string{"a_1", "b_1"}, Evidence: migrate.Sampled},
			say:   "Sampled: 2 API servers, samples; not stronger because 2 of 2 servers' own addresses do not answer",
		},
		"the strongest evidence counts": {
			in: findings{target: deviceClasses, leases: twoLive,
				reports: []report{own(said(v1, v1)), sample(said(v1))}},
			epoch: migrate.Epoch{Hash: v1, Servers: []string{"a_1", "b_1"}, Evidence: migrate.Observed},
			say:   "Observed: 2 API servers, each",
		},
		"a server without a Lease changes the set": {
			in: findings{
				target: deviceClasses, leases: twoLive, endpoints: snapshot.Endpoints{Known: true,
					Addresses: []string{"a", "b", "c"}},
				reports: []report{{why: "3 addresses"}, sample(said(v1, v1))},
			},
			epoch: migrate.Epoch{Hash: v1, Servers: []string{"1 API server without an identity Lease", "a_1", "b_1"},
				Evidence: migrate.Sampled},
			say: "Sampled: 2 API servers, samples; not stronger because 3 addresses",
		},
		"without Leases the servers are unknown": {
			in: findings{target: deviceClasses, leases: snapshot.Leases{Why: "forbidden"}, reports: []report{
				{why: "forbidden"}, sample(said(v1)),
			}},
			epoch: migrate.Epoch{Hash: v1, Evidence: migrate.Sampled},
			say:   "Sampled: samples; not stronger because forbidden",
		},
		"two servers show two hashes: each is named with its version": {
			in: findings{target: deviceClasses, leases: twoLive, reports: []report{own(said(v1beta2, v1))}},
			is: migrate.ErrDisagreement, says: []string{"deviceclasses.resource.k8s.io",
				"api-1 writes resource.k8s.io/v1beta2", "api-2 writes resource.k8s.io/v1"},
		},
		"one silent server does not hide the disagreement of the others": {
			in: findings{target: deviceClasses, leases: twoLive, reports: []report{
				{answers: said(v1beta2), why: "1 of 2 servers' own addresses do not answer"},
				sample([]answer{{server: "lb", served: true, hash: v1}}),
			}},
			is: migrate.ErrDisagreement, says: []string{"api-1 writes resource.k8s.io/v1beta2",
				"lb writes resource.k8s.io/v1"},
		},
		"a hash of no known version is shown": {
			in: findings{target: deviceClasses, leases: twoLive, reports: []report{own(said("AAAA", v1))}},
			is: migrate.ErrDisagreement, says: []string{"api-1 writes a version with the hash AAAA"},
		},
		"a server that does not serve the version may write another": {
			in: findings{target: deviceClasses, leases: twoLive,
				reports: []report{own(append(said(v1), answer{server: "api-2"}))}},
			is: migrate.ErrDisagreement, says: []string{"api-2 does not serve resource.k8s.io/v1"},
		},
		"no server serves it": {
			in: findings{target: deviceClasses, leases: oneLive, reports: []report{own([]answer{{server: "api-1"}})}},
			is: snapshot.ErrNotServed,
		},
		"no hash is no agreement": {
			in: findings{target: deviceClasses, leases: oneLive, reports: []report{own(said(""))}},
			is: errNoHash,
		},
		"no server answered": {
			in:   findings{target: deviceClasses, leases: oneLive, reports: []report{{why: "x"}}},
			says: []string{"no API server was asked"},
		},
		"a custom resource's epoch has the identity of its CRD": {
			in: findings{target: widgets, crd: widgetCRD(true), leases: oneLive,
				reports: []report{own(said(hashOf(widgets, "v2")))}},
			epoch: migrate.Epoch{Hash: hashOf(widgets, "v2"), Servers: []string{"a_1"}, CRDUID: "u", CRDGeneration: 7,
				Evidence: migrate.Observed},
			say: "Observed: 1 API server, each",
		},
		"a server that shows another hash than the CRD has not caught up": {
			in: findings{target: widgets, crd: widgetCRD(true), leases: oneLive,
				reports: []report{own(said(hashOf(widgets, "v1")))}},
			is: migrate.ErrDisagreement, says: []string{"api-1 writes demo.example.com/v1",
				"the CustomResourceDefinition says demo.example.com/v2"},
		},
		"a storage version that is not served shows no hash: the CRD gives it": {
			in: findings{target: widgets, crd: widgetCRD(false), leases: oneLive,
				reports: []report{own(said(""))}},
			epoch: migrate.Epoch{Hash: hashOf(widgets, "v2"), Servers: []string{"a_1"}, CRDUID: "u", CRDGeneration: 7,
				Evidence: migrate.Observed},
			say: "Observed: 1 API server, each",
		},
		"a hash is shown although the storage version is not served: not caught up": {
			in: findings{target: widgets, crd: widgetCRD(false), leases: oneLive,
				reports: []report{own(said(hashOf(widgets, "v2")))}},
			is: migrate.ErrDisagreement, says: []string{"api-1 writes demo.example.com/v2"},
		},
		"where no hash is shown, a server that does not serve the resource still counts": {
			in: findings{target: widgets, crd: widgetCRD(false), leases: twoLive,
				reports: []report{own(append(said(""), answer{server: "api-2"}))}},
			is: migrate.ErrDisagreement, says: []string{"api-2 does not serve demo.example.com/v1"},
		},
		"no hash is shown although the storage version is served: not caught up": {
			in: findings{target: widgets, crd: widgetCRD(true), leases: oneLive,
				reports: []report{own(said(""))}},
			is: migrate.ErrDisagreement, says: []string{"api-1 shows no storageVersionHash in discovery"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := combine(tt.in)
			if tt.is != nil || tt.says != nil {
				if err == nil {
					t.Fatalf("combine() = %+v, want an error", got)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("error is %v, want %v", err, tt.is)
				}
				for _, s := range tt.says {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("error %q does not say %q", err, s)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := compare.Diff(tt.epoch, got.epoch); diff != "" {
				t.Errorf("epoch (-want +got):\n%s", diff)
			}
			if diff := compare.Diff(tt.say, got.explanation.String()); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADisagreementCarriesTheHashesOfAllVersions(t *testing.T) {
	v1, v2 := hashOf(deviceClasses, "v1"), hashOf(deviceClasses, "v1beta2")
	_, err := combine(findings{target: deviceClasses, leases: twoLive, reports: []report{{answers: said(v2, v1, v2)}}})
	var d *Disagreement
	if !errors.As(err, &d) {
		t.Fatalf("error is %v, want a *Disagreement", err)
	}
	if diff := compare.Diff([]string{v1, v2}, d.Hashes); diff != "" { // "Yk…" before "we…"
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
}

func TestReadable(t *testing.T) {
	events := migrate.Target{Resource: schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1",
		Resource: "events"}, Kind: "Event"}
	if got := readable("r2yiGXH7wu8=", candidates(events, nil)); got != "v1" {
		t.Errorf("events of events.k8s.io are written as %q, want the core group's v1", got)
	}
	if got := readable(hashOf(widgets, "v2"),
		candidates(widgets, widgetCRD(false))); got != "demo.example.com/v2" {
		t.Errorf("widgets are written as %q, want demo.example.com/v2, which is not served", got)
	}
}
