// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// lists is the document of a server that lists deviceclasses with a hash, or does not list them if the hash is "-".
func lists(hash string) document {
	if hash == "-" {
		return document{}
	}
	return document{Resources: []listing{{Name: "deviceclasses", Kind: "DeviceClass", Hash: hash}}}
}

// asked is the survey of two servers at their own addresses, the first at …11.
func asked(evidence migrate.Evidence, hashes ...string) survey {
	s := survey{evidence: evidence, how: "each", why: map[bool]string{true: "1 of 2 is silent"}[evidence == 0]}
	for i, h := range hashes {
		address := []string{"192.0.2.11:6443", "192.0.2.12:6443"}[i]
		s.readings = append(s.readings, reading{server: address, address: address, document: lists(h)})
	}
	return s
}

// guessed is the survey of connections to a shared address.
func guessed(hashes ...string) survey {
	s := survey{evidence: migrate.Sampled, how: "samples"}
	for _, h := range hashes {
		s.readings = append(s.readings, reading{server: "lb", anonymous: true, document: lists(h)})
	}
	return s
}

func TestViews(t *testing.T) {
	v1, v1beta2 := hashOf(deviceClasses, "v1"), hashOf(deviceClasses, "v1beta2")
	const readable1, readable2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
	here := leases{known: true, live: []server{
		{name: "a", holder: "a_1", address: "192.0.2.11:6443"}, {name: "b", holder: "b_1", address: "192.0.2.12:6443"},
	}}
	nowhere := leases{known: true, live: []server{{name: "a", holder: "a_1"}, {name: "b", holder: "b_1"}}}
	both := endpoints{known: true, addresses: []string{"192.0.2.11:6443", "192.0.2.12:6443"}}
	known := func(id, process, hash, version string) Server {
		return Server{ID: id, Process: process, Hash: hash, Version: version, Answered: true}
	}
	inquiries := func(of map[string]inquiry) map[schema.GroupVersion]inquiry {
		m := map[schema.GroupVersion]inquiry{}
		for v, i := range of {
			m[schema.GroupVersion{Group: "resource.k8s.io", Version: v}] = i
		}
		return m
	}
	one := func(surveys ...survey) map[schema.GroupVersion]inquiry {
		return inquiries(map[string]inquiry{"v1": {surveys: surveys}})
	}

	for name, tt := range map[string]struct {
		in       snapshot
		evidence migrate.Evidence
		disagree bool
		why      string // is contained
		servers  []Server
		hashes   []string
	}{
		"two servers agree": {
			in:       snapshot{leases: here, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1))},
			evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1),
				known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"two servers disagree": {
			in:       snapshot{leases: here, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1beta2))},
			disagree: true, why: "192.0.2.12:6443 writes resource.k8s.io/v1beta2",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1beta2, readable2)},
			hashes:  []string{v1, v1beta2},
		},
		"one of them does not serve it": {
			in: snapshot{leases: here, endpoints: both, inquiries: one(asked(migrate.Observed, v1, "-"))}, disagree: true,
			why:     "192.0.2.12:6443 does not serve",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", "", "")}, hashes: []string{v1},
		},
		"they serve it in one version in common, and one more": {
			in: snapshot{leases: here, endpoints: both, inquiries: inquiries(map[string]inquiry{
				"v1":      {surveys: []survey{asked(migrate.Observed, v1, v1)}},
				"v1beta2": {surveys: []survey{asked(migrate.Observed, "-", v1)}},
			})}, evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"they serve it in no version in common": {
			in: snapshot{leases: here, endpoints: both, inquiries: inquiries(map[string]inquiry{
				"v1":      {surveys: []survey{asked(migrate.Observed, v1, "-")}},
				"v1beta2": {surveys: []survey{asked(migrate.Observed, "-", v1)}},
			})}, disagree: true, why: "does not serve",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"the weakest evidence of its versions counts": {
			in: snapshot{leases: here, endpoints: both, inquiries: inquiries(map[string]inquiry{
				"v1":      {surveys: []survey{asked(migrate.Observed, v1, v1)}},
				"v1beta2": {surveys: []survey{asked(0, v1), guessed(v1, v1)}},
			})}, evidence: migrate.Sampled, why: "1 of 2 is silent",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1),
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"another of its versions could not be read": {
			in: snapshot{leases: here, endpoints: both, inquiries: inquiries(map[string]inquiry{
				"v1": {surveys: []survey{asked(migrate.Observed, v1, v1)}}, "v1beta2": {err: errors.New("busy")},
			})}, why: "busy",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"one did not answer, and its look is void": {
			in: snapshot{leases: here, endpoints: both,
				inquiries: inquiries(map[string]inquiry{"v1": {surveys: []survey{asked(0, v1)},
					err: errors.New("ask API server: lost")}})},
			why: "lost", servers: []Server{known("a", "a_1", v1, readable1),
				{ID: "b", Process: "b_1"}}, hashes: []string{v1},
		},
		"only a shared address answers": {
			in:       snapshot{leases: here, endpoints: both, inquiries: one(asked(0), guessed(v1, v1))},
			evidence: migrate.Sampled, why: "1 of 2 is silent",
			servers: []Server{{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"},
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"a shared address shows two versions": {
			in:       snapshot{leases: here, endpoints: both, inquiries: one(asked(0), guessed(v1, v1beta2, v1))},
			disagree: true, why: "lb writes resource.k8s.io/v1beta2",
			servers: []Server{{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"}, known("lb", "", v1, readable1),
				known("lb, another (2)", "", v1beta2, readable2)},
			hashes: []string{v1, v1beta2},
		},
		"Leases do not tell addresses, but all say the same": {
			in:       snapshot{leases: nowhere, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1))},
			evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1),
				known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"Leases do not tell addresses: who said what is not known": {
			in:       snapshot{leases: nowhere, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1beta2))},
			disagree: true, why: "writes resource.k8s.io/v1beta2",
			servers: []Server{
				known("192.0.2.11:6443", "", v1, readable1), known("192.0.2.12:6443", "", v1beta2, readable2),
				{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"},
			}, hashes: []string{v1, v1beta2},
		},
		"an address without a Lease is a server, too": {
			in: snapshot{leases: leases{known: true, live: here.live[:1]}, endpoints: both,
				inquiries: one(survey{why: "cannot be counted"}, guessed(v1))}, evidence: migrate.Sampled,
			why: "cannot be counted",
			servers: []Server{{ID: "192.0.2.12:6443"}, {ID: "a", Process: "a_1"},
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"a server was replaced during the round: the answer may be that of the one before": {
			in: snapshot{
				before: leases{known: true, live: []server{here.live[0],
					{name: "b", holder: "b_0", address: "192.0.2.12:6443"}}}, moved: true,
				leases: here, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1)),
			}, why: "came or went during the look",
			servers: []Server{known("192.0.2.12:6443", "", v1, readable1), known("a", "a_1", v1, readable1),
				{ID: "b", Process: "b_1"}}, hashes: []string{v1},
		},
		"an entry of a server that is gone may have been written": {
			in: snapshot{
				leases: here, endpoints: both, inquiries: one(asked(migrate.Observed, v1, v1)), notPublishing: "x",
				declarations: map[schema.GroupResource][]declaration{
					deviceClasses.GroupResource(): {declares(kubernetesAPI, "c="+readable2)},
				},
			}, evidence: migrate.Observed, why: "names 1 API server, and identity Leases show 2",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1),
				{ID: "c", Hash: v1beta2, Version: readable2, Declared: true}},
			hashes: []string{v1, v1beta2},
		},
		"no server serves the resource of an entry": {
			in: snapshot{leases: leases{known: true}, declarations: map[schema.GroupResource][]declaration{
				deviceClasses.GroupResource(): {declares(kubernetesAPI, "c="+readable2)},
			}}, why: "no API server serves it", servers: []Server{{ID: "c", Version: readable2,
				Declared: true}}, hashes: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := allOf(&tt.in)
			if len(all) != 1 {
				t.Fatalf("there are %d resources, want 1", len(all))
			}
			v := all[0].view()
			if v.Evidence != tt.evidence || v.Disagree != tt.disagree || (v.Epoch != nil) != (tt.evidence > 0) ||
				!strings.Contains(v.Why, tt.why) || tt.why == "" && v.Why != "" {
				t.Errorf("evidence %v, disagree %t, epoch %+v, why %q; want %v, %t, why %q", v.Evidence, v.Disagree,
					v.Epoch, v.Why, tt.evidence, tt.disagree, tt.why)
			}
			if diff := compare.Diff(tt.servers, v.Servers); diff != "" {
				t.Errorf("servers (-want +got):\n%s", diff)
			}
			if diff := compare.Diff(tt.hashes, v.Hashes); diff != "" {
				t.Errorf("hashes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAProcessBehindAnAPIServiceThatWasReplacedDuringARoundLeavesNoEpoch(t *testing.T) {
	gv := deviceClasses.Resource.GroupVersion()
	behind := func(pod string) map[schema.GroupVersion]*service {
		return map[schema.GroupVersion]*service{gv: {name: "v1.x", id: "u/1",
			processes: []process{{"192.0.2.11:6443", pod}}}}
	}
	for after, want := range map[string]migrate.Evidence{"p": migrate.Observed, "q": 0} {
		f := snapshot{
			services: behind("p"), servicesAfter: behind(after),
			inquiries: map[schema.GroupVersion]inquiry{gv: {surveys: []survey{asked(migrate.Observed,
				hashOf(deviceClasses, "v1"))}}},
		}
		if v := allOf(&f)[0].view(); v.Evidence != want || v.Origin != migrate.Aggregated {
			t.Errorf("pod %s afterwards: the view is %+v, want evidence %v", after, v, want)
		}
	}
}

func TestRoundsRememberWhatEarlierOnesSaw(t *testing.T) {
	o := &Observer{memories: map[schema.GroupResource]memory{}}
	f := findings{
		target: deviceClasses, versions: []string{"v1"}, leases: twoLive,
		reports: []report{{answers: said("h", "h"), evidence: migrate.Sampled}},
	}
	round := func(f findings, now time.Time) time.Time {
		v := o.views([]findings{f}, now)[0]
		if v.Epoch == nil {
			return time.Time{}
		}
		return v.Epoch.Since
	}
	if got := round(f, noon); !got.Equal(noon) {
		t.Errorf("an unknown time is taken as %v, want the first round's end", got)
	}
	if got := round(f, at(time.Hour)); !got.Equal(noon) {
		t.Errorf("the same an hour later begins at %v, want noon", got)
	}
	failed := f
	failed.failed = errors.New("busy")
	if got := round(failed, at(90*time.Minute)); !got.IsZero() {
		t.Errorf("a round that learnt nothing says that it begins at %v", got)
	}
	if got := round(f, at(100*time.Minute)); !got.Equal(noon) {
		t.Errorf("after a round that learnt nothing it begins at %v, want noon", got)
	}
	between := f
	between.reports = []report{{answers: said("h", "other"), evidence: migrate.Sampled}}
	if got := round(between, at(2*time.Hour)); !got.IsZero() {
		t.Errorf("a disagreement begins at %v", got)
	}
	if got := round(f, at(3*time.Hour)); !got.Equal(at(3 * time.Hour)) {
		t.Errorf("the same after a disagreement begins at %v, want the last round's end", got)
	}
}

func TestWhatHasAView(t *testing.T) {
	f := snapshot{
		leases: leases{known: true},
		crds:   map[schema.GroupResource]*crd.CRD{widgets.GroupResource(): widgetCRD(false)},
		inquiries: map[schema.GroupVersion]inquiry{{Group: "x",
			Version: "v1"}: {surveys: []survey{{readings: []reading{{document: document{Resources: []listing{
			{Name: "reviews"}, {Name: "metrics", Verbs: verbs{listed: true}},
			{Name: "hidden", Verbs: verbs{listed: true, written: true}}, {Name: "shown", Hash: "h"},
		}}}}}}}},
	}
	var names []string
	for _, one := range allOf(&f) {
		names = append(names, one.target.GroupResource().String())
	}
	if diff := compare.Diff([]string{"widgets.demo.example.com", "hidden.x", "shown.x"}, names); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
	d := allOf(&f)[0].view().CRD
	if d == nil || d.Storage != "v2" || d.Hashes["v1"] != hashOf(widgets, "v1") ||
		d.Hashes["v2"] != hashOf(widgets, "v2") {
		t.Errorf("the CRD is %+v", d)
	}
}

// A process of an aggregated API server that came and went leaves a new generation of a slice behind. If the slice
// cannot be read, there is no trace.
func TestTheTracesOfAnAggregatedAPIServer(t *testing.T) {
	one := &service{name: "v1.wardle", id: "u/1", namespace: "default", service: "flunders",
		slices: []string{"slice 4"}}
	same := &service{name: "v1beta1.wardle", id: "w/1", namespace: "default", service: "flunders",
		slices: []string{"slice 4"}}
	another := &service{name: "v2.wardle", id: "x/1", namespace: "default", service: "fischers",
		slices: []string{"slice 1"}}
	unread := &service{name: "v1.wardle", id: "u/1", namespace: "default", service: "flunders"}
	for name, test := range map[string]struct {
		services []*service
		want     []string
	}{
		"of one version": {[]*service{one}, []string{"apiservice v1.wardle u/1", "slice 4"}},
		"of two versions from one service": {[]*service{one, same},
			[]string{"apiservice v1.wardle u/1", "apiservice v1beta1.wardle w/1", "slice 4"}},
		"of two services":                     {[]*service{one, another}, nil},
		"whose slices cannot be read":         {[]*service{unread}, nil},
		"of which one version's was not read": {[]*service{unread, same}, nil},
		"of which the other's was not read":   {[]*service{same, unread}, nil},
		"of three versions, two services":     {[]*service{one, another, same}, nil},
		"that publishes": {[]*service{one}, []string{
			"apiservice v1.wardle u/1", "slice 4", "storageversion s/7"}},
		"that publishes, and whose slices cannot be read": {[]*service{unread}, nil},
	} {
		f := &snapshot{services: map[schema.GroupVersion]*service{}}
		resource := schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}
		var versions []string
		for i, s := range test.services {
			versions = append(versions, fmt.Sprint("v", i+1))
			f.services[schema.GroupVersion{Group: resource.Group, Version: versions[i]}] = s
		}
		f.servicesAfter = f.services
		if strings.Contains(name, "publishes") {
			f.declarations = map[schema.GroupResource][]declaration{
				resource.GroupResource(): {{api: kubernetesAPI, id: "k/1"}, {api: ourAPI, id: "s/7"}}}
		}
		found := findingsOf(f, migrate.Target{Resource: resource, Origin: migrate.Aggregated}, versions...)
		if published := found.view().Published; published != "" != (f.declarations != nil) ||
			published != "" && published != "s/7" {
			t.Errorf("%s: published %q", name, published)
		}
		if diff := compare.Diff(test.want, found.view().Traces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A process of an aggregated API server that came and went between two looks has changed what such processes leave
// behind.
func TestAnEpochOfAnAggregatedResourceStartsAfterItsTracesHaveChanged(t *testing.T) {
	service := &service{name: "v1.x", id: "u/1", slices: []string{"endpointslice default/x generation 4"}}
	look := func() findings {
		return findings{target: aggregatedTarget(), service: service, traces: service.traces()}
	}
	published := look()
	published.declarations = []declaration{{api: ourAPI, id: "s/7"}}
	published.traces = published.tracesAnd(published.traces)
	e := migrate.Epoch{Hash: "h", Servers: []string{"192.0.2.21:443/p"}}
	for name, tt := range map[string]struct {
		second findings
		want   time.Time
	}{
		"nothing happened":               {look(), noon},
		"the StorageVersion has changed": {published, at(time.Minute)},
	} {
		m := memory{}.next(e, stampsOf(look().seen()), clocks{}, noon)
		if m = m.next(e, stampsOf(tt.second.seen()), clocks{}, at(time.Minute)); !m.since.Equal(tt.want) {
			t.Errorf("%s: since %s, want %s", name, m.since, tt.want)
		}
	}
}

func aggregatedTarget() migrate.Target {
	target := deviceClasses
	target.Origin = migrate.Aggregated
	return target
}

func TestRestartsAreSeenOnlyWhereEachServerWasAsked(t *testing.T) {
	for evidence, want := range map[migrate.Evidence]bool{migrate.Observed: true, migrate.Sampled: false, 0: false} {
		f := findings{reports: []report{{evidence: evidence, restartsSeen: true}}}
		if got := f.seen().restartsSeen; got != want {
			t.Errorf("with the evidence %v: %v, want %v", evidence, got, want)
		}
	}
	if (findings{reports: []report{{evidence: migrate.Observed}}}).seen().restartsSeen {
		t.Error("a server that hides its restarts shows them")
	}
}
