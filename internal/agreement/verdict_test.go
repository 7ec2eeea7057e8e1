// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// lists is the document of a server that lists deviceclasses with a hash, or does not list them if the hash is "-".
func lists(hash string) snapshot.Document {
	if hash == "-" {
		return snapshot.Document{}
	}
	return snapshot.Document{Resources: []snapshot.Listing{{Name: "deviceclasses", Kind: "DeviceClass", Hash: hash}}}
}

// asked is the survey of two servers at their own addresses, the first at …11.
func asked(evidence migrate.Evidence, hashes ...string) snapshot.Survey {
	s := snapshot.Survey{Evidence: evidence, How: "each", Why: map[bool]string{true: "1 of 2 is silent"}[evidence == 0]}
	for i, h := range hashes {
		address := []string{"192.0.2.11:6443", "192.0.2.12:6443"}[i]
		s.Answers = append(s.Answers, snapshot.Answer{Server: address, Address: address, Document: lists(h)})
	}
	return s
}

// guessed is the survey of connections to a shared address.
func guessed(hashes ...string) snapshot.Survey {
	s := snapshot.Survey{Evidence: migrate.Sampled, How: "samples"}
	for _, h := range hashes {
		s.Answers = append(s.Answers, snapshot.Answer{Server: "lb", Anonymous: true, Document: lists(h)})
	}
	return s
}

// throughJSON returns the snapshot that was written to JSON and read back.
func throughJSON(t *testing.T, s snapshot.Snapshot) *snapshot.Snapshot {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back snapshot.Snapshot
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return &back
}

func TestVerdicts(t *testing.T) {
	v1, v1beta2 := hashOf(deviceClasses, "v1"), hashOf(deviceClasses, "v1beta2")
	const readable1, readable2 = "resource.k8s.io/v1", "resource.k8s.io/v1beta2"
	here := snapshot.Leases{Known: true, Live: []snapshot.Server{
		{Name: "a", Holder: "a_1", Address: "192.0.2.11:6443"}, {Name: "b", Holder: "b_1", Address: "192.0.2.12:6443"},
	}}
	nowhere := snapshot.Leases{Known: true, Live: []snapshot.Server{{Name: "a", Holder: "a_1"}, {Name: "b", Holder: "b_1"}}}
	both := snapshot.Endpoints{Known: true, Addresses: []string{"192.0.2.11:6443", "192.0.2.12:6443"}}
	known := func(id, process, hash, version string) Server {
		return Server{ID: id, Process: process, Hash: hash, Version: version, Answered: true}
	}
	inquiries := func(of map[string]snapshot.Inquiry) map[schema.GroupVersion]snapshot.Inquiry {
		m := map[schema.GroupVersion]snapshot.Inquiry{}
		for v, i := range of {
			m[schema.GroupVersion{Group: "resource.k8s.io", Version: v}] = i
		}
		return m
	}
	one := func(surveys ...snapshot.Survey) map[schema.GroupVersion]snapshot.Inquiry {
		return inquiries(map[string]snapshot.Inquiry{"v1": {Surveys: surveys}})
	}

	for name, tt := range map[string]struct {
		in       snapshot.Snapshot
		evidence migrate.Evidence
		disagree bool
		why      string // is contained
		servers  []Server
		hashes   []string
	}{
		"two servers agree": {
			in:       snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1))},
			evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1),
				known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"two servers disagree": {
			in:       snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1beta2))},
			disagree: true, why: "192.0.2.12:6443 writes resource.k8s.io/v1beta2",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1beta2, readable2)},
			hashes:  []string{v1, v1beta2},
		},
		"one of them does not serve it": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, "-"))}, disagree: true,
			why:     "192.0.2.12:6443 does not serve",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", "", "")}, hashes: []string{v1},
		},
		"they serve it in one version in common, and one more": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: inquiries(map[string]snapshot.Inquiry{
				"v1":      {Surveys: []snapshot.Survey{asked(migrate.Observed, v1, v1)}},
				"v1beta2": {Surveys: []snapshot.Survey{asked(migrate.Observed, "-", v1)}},
			})}, evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"they serve it in no version in common": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: inquiries(map[string]snapshot.Inquiry{
				"v1":      {Surveys: []snapshot.Survey{asked(migrate.Observed, v1, "-")}},
				"v1beta2": {Surveys: []snapshot.Survey{asked(migrate.Observed, "-", v1)}},
			})}, disagree: true, why: "does not serve",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"the weakest evidence of its versions counts": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: inquiries(map[string]snapshot.Inquiry{
				"v1":      {Surveys: []snapshot.Survey{asked(migrate.Observed, v1, v1)}},
				"v1beta2": {Surveys: []snapshot.Survey{asked(0, v1), guessed(v1, v1)}},
			})}, evidence: migrate.Sampled, why: "1 of 2 is silent",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1),
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"another of its versions could not be read": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: inquiries(map[string]snapshot.Inquiry{
				"v1": {Surveys: []snapshot.Survey{asked(migrate.Observed, v1, v1)}}, "v1beta2": {Err: errors.New("busy")},
			})}, why: "busy",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"one did not answer, and its look is void": {
			in: snapshot.Snapshot{Leases: here, Endpoints: both,
				Inquiries: inquiries(map[string]snapshot.Inquiry{"v1": {Surveys: []snapshot.Survey{asked(0, v1)},
					Err: errors.New("ask API server: lost")}})},
			why: "lost", servers: []Server{known("a", "a_1", v1, readable1),
				{ID: "b", Process: "b_1"}}, hashes: []string{v1},
		},
		"only a shared address answers": {
			in:       snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: one(asked(0), guessed(v1, v1))},
			evidence: migrate.Sampled, why: "1 of 2 is silent",
			servers: []Server{{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"},
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"a shared address shows two versions": {
			in:       snapshot.Snapshot{Leases: here, Endpoints: both, Inquiries: one(asked(0), guessed(v1, v1beta2, v1))},
			disagree: true, why: "lb writes resource.k8s.io/v1beta2",
			servers: []Server{{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"}, known("lb", "", v1, readable1),
				known("lb, another (2)", "", v1beta2, readable2)},
			hashes: []string{v1, v1beta2},
		},
		"Leases do not tell addresses, but all say the same": {
			in:       snapshot.Snapshot{Leases: nowhere, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1))},
			evidence: migrate.Observed,
			servers: []Server{known("a", "a_1", v1, readable1),
				known("b", "b_1", v1, readable1)}, hashes: []string{v1},
		},
		"Leases do not tell addresses: who said what is not known": {
			in:       snapshot.Snapshot{Leases: nowhere, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1beta2))},
			disagree: true, why: "writes resource.k8s.io/v1beta2",
			servers: []Server{
				known("192.0.2.11:6443", "", v1, readable1), known("192.0.2.12:6443", "", v1beta2, readable2),
				{ID: "a", Process: "a_1"}, {ID: "b", Process: "b_1"},
			}, hashes: []string{v1, v1beta2},
		},
		"an address without a Lease is a server, too": {
			in: snapshot.Snapshot{Leases: snapshot.Leases{Known: true, Live: here.Live[:1]}, Endpoints: both,
				Inquiries: one(snapshot.Survey{Why: "cannot be counted"}, guessed(v1))}, evidence: migrate.Sampled,
			why: "cannot be counted",
			servers: []Server{{ID: "192.0.2.12:6443"}, {ID: "a", Process: "a_1"},
				known("lb", "", v1, readable1)}, hashes: []string{v1},
		},
		"a server was replaced during the round: the answer may be that of the one before": {
			in: snapshot.Snapshot{
				Before: snapshot.Leases{Known: true, Live: []snapshot.Server{here.Live[0],
					{Name: "b", Holder: "b_0", Address: "192.0.2.12:6443"}}}, Moved: true,
				Leases: here, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1)),
			}, why: "came or went during the look",
			servers: []Server{known("192.0.2.12:6443", "", v1, readable1), known("a", "a_1", v1, readable1),
				{ID: "b", Process: "b_1"}}, hashes: []string{v1},
		},
		"an entry of a server that is gone may have been written": {
			in: snapshot.Snapshot{
				Leases: here, Endpoints: both, Inquiries: one(asked(migrate.Observed, v1, v1)), NotPublishing: "x",
				StorageVersions: map[schema.GroupResource][]snapshot.StorageVersion{
					deviceClasses.GroupResource(): {declares(snapshot.KubernetesAPI, "c="+readable2)},
				},
			}, evidence: migrate.Observed, why: "names 1 API server, and identity Leases show 2",
			servers: []Server{known("a", "a_1", v1, readable1), known("b", "b_1", v1, readable1),
				{ID: "c", Hash: v1beta2, Version: readable2, Declared: true}},
			hashes: []string{v1, v1beta2},
		},
		"no server serves the resource of an entry": {
			in: snapshot.Snapshot{Leases: snapshot.Leases{Known: true}, StorageVersions: map[schema.GroupResource][]snapshot.StorageVersion{
				deviceClasses.GroupResource(): {declares(snapshot.KubernetesAPI, "c="+readable2)},
			}}, why: "no API server serves it", servers: []Server{{ID: "c", Version: readable2,
				Declared: true}}, hashes: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := allOf(throughJSON(t, tt.in))
			if len(all) != 1 {
				t.Fatalf("there are %d resources, want 1", len(all))
			}
			v := all[0].verdict()
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

func TestRoundsRememberWhatEarlierOnesSaw(t *testing.T) {
	o := &Observer{memories: map[schema.GroupResource]servers.Memories{}}
	f := findings{
		target: deviceClasses, versions: []string{"v1"}, leases: twoLive,
		reports: []report{{answers: said("h", "h"), evidence: migrate.Sampled}},
	}
	round := func(f findings, now time.Time) time.Time {
		v := o.verdicts([]findings{f}, now)[0]
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

func TestWhatHasAVerdict(t *testing.T) {
	f := snapshot.Snapshot{
		Leases: snapshot.Leases{Known: true},
		CRDs:   map[schema.GroupResource]*crd.CRD{widgets.GroupResource(): widgetCRD(false)},
		Inquiries: map[schema.GroupVersion]snapshot.Inquiry{{Group: "x",
			Version: "v1"}: {Surveys: []snapshot.Survey{{Answers: []snapshot.Answer{{Document: snapshot.Document{Resources: []snapshot.Listing{
			{Name: "reviews"}, {Name: "metrics", Verbs: snapshot.Verbs{Listed: true}},
			{Name: "hidden", Verbs: snapshot.Verbs{Listed: true, Written: true}}, {Name: "shown", Hash: "h"},
		}}}}}}}},
	}
	var names []string
	for _, one := range allOf(&f) {
		names = append(names, one.target.GroupResource().String())
	}
	if diff := compare.Diff([]string{"widgets.demo.example.com", "hidden.x", "shown.x"}, names); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	d := allOf(&f)[0].verdict().CRD
	if d == nil || d.Storage != "v2" || d.Hashes["v1"] != hashOf(widgets, "v1") ||
		d.Hashes["v2"] != hashOf(widgets, "v2") {
		t.Errorf("the CRD is %+v", d)
	}
}

func TestRestartsAreSeenOnlyWhereEachServerWasAsked(t *testing.T) {
	for evidence, want := range map[migrate.Evidence]bool{migrate.Observed: true, migrate.Sampled: false, 0: false} {
		f := findings{reports: []report{{evidence: evidence, restartsSeen: true}}}
		if got := f.seen().RestartsSeen; got != want {
			t.Errorf("with the evidence %v: %v, want %v", evidence, got, want)
		}
	}
	if (findings{reports: []report{{evidence: migrate.Observed}}}).seen().RestartsSeen {
		t.Error("a server that hides its restarts shows them")
	}
}
