// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/agreement/servers"
	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAProcessBehindAnAPIServiceThatWasReplacedDuringARoundLeavesNoEpoch(t *testing.T) {
	in := func(version string) schema.GroupVersion {
		return schema.GroupVersion{Group: deviceClasses.Resource.Group, Version: version}
	}
	behind := func(pods ...string) map[schema.GroupVersion]*snapshot.Service { // of v1, and of v1beta2
		services := map[schema.GroupVersion]*snapshot.Service{}
		for i, version := range []string{"v1", "v1beta2"}[:len(pods)] {
			services[in(version)] = &snapshot.Service{Name: version + ".x", ID: "u/1",
				Processes: []snapshot.Process{{Address: fmt.Sprintf("192.0.2.1%d:6443", i+1), Pod: pods[i]}}}
		}
		return services
	}
	for name, tt := range map[string]struct {
		before, after []string
		want          migrate.Evidence
	}{
		"none was":                         {[]string{"p"}, []string{"p"}, migrate.Observed},
		"it was":                           {[]string{"p"}, []string{"q"}, 0},
		"that of the first of two, it was": {[]string{"p", "r"}, []string{"q", "r"}, 0},
		"that of the last of two, it was":  {[]string{"p", "r"}, []string{"p", "s"}, 0},
	} {
		f := snapshot.Snapshot{Services: behind(tt.before...), ServicesAfter: behind(tt.after...),
			Inquiries: map[schema.GroupVersion]snapshot.Inquiry{}}
		for gv := range f.Services {
			f.Inquiries[gv] = snapshot.Inquiry{Surveys: []snapshot.Survey{asked(migrate.Observed,
				hashOf(deviceClasses, "v1"))}}
		}
		if v := allOf(&f)[0].verdict(); v.Evidence != tt.want || v.Origin != migrate.Aggregated {
			t.Errorf("%s: the verdict is %+v, want evidence %v", name, v, tt.want)
		}
	}
}

// A process of an aggregated API server that came and went leaves a new generation of a slice behind. If the slice
// cannot be read, there is no trace.
func TestTheTracesOfAnAggregatedAPIServer(t *testing.T) {
	one := &snapshot.Service{Name: "v1.wardle", ID: "u/1", Namespace: "default", Service: "flunders",
		Slices: []string{"slice 4"}}
	same := &snapshot.Service{Name: "v1beta1.wardle", ID: "w/1", Namespace: "default", Service: "flunders",
		Slices: []string{"slice 4"}}
	another := &snapshot.Service{Name: "v2.wardle", ID: "x/1", Namespace: "default", Service: "fischers",
		Slices: []string{"slice 1"}}
	unread := &snapshot.Service{Name: "v1.wardle", ID: "u/1", Namespace: "default", Service: "flunders"}
	for name, test := range map[string]struct {
		services []*snapshot.Service
		want     []string
	}{
		"of one version": {[]*snapshot.Service{one}, []string{"apiservice v1.wardle u/1", "slice 4"}},
		"of two versions from one service": {[]*snapshot.Service{one, same},
			[]string{"apiservice v1.wardle u/1", "apiservice v1beta1.wardle w/1", "slice 4"}},
		"of two services":                     {[]*snapshot.Service{one, another}, nil},
		"whose slices cannot be read":         {[]*snapshot.Service{unread}, nil},
		"of which one version's was not read": {[]*snapshot.Service{unread, same}, nil},
		"of which the other's was not read":   {[]*snapshot.Service{same, unread}, nil},
		"of three versions, two services":     {[]*snapshot.Service{one, another, same}, nil},
		"that publishes": {[]*snapshot.Service{one}, []string{
			"apiservice v1.wardle u/1", "slice 4", "storageversion s/7"}},
		"that publishes, and whose slices cannot be read": {[]*snapshot.Service{unread}, nil},
	} {
		f := &snapshot.Snapshot{Services: map[schema.GroupVersion]*snapshot.Service{}}
		resource := schema.GroupVersionResource{Group: "wardle.example.com", Version: "v1", Resource: "flunders"}
		var versions []string
		for i, s := range test.services {
			versions = append(versions, fmt.Sprint("v", i+1))
			f.Services[schema.GroupVersion{Group: resource.Group, Version: versions[i]}] = s
		}
		f.ServicesAfter = f.Services
		if strings.Contains(name, "publishes") {
			f.StorageVersions = map[schema.GroupResource][]snapshot.StorageVersion{
				resource.GroupResource(): {{API: snapshot.KubernetesAPI, ID: "k/1"}, {API: snapshot.OurAPI, ID: "s/7"}}}
		}
		found := findingsOf(f, migrate.Target{Resource: resource, Origin: migrate.Aggregated}, versions...)
		if published := found.verdict().Published; published != "" != (f.StorageVersions != nil) ||
			published != "" && published != "s/7" {
			t.Errorf("%s: published %q", name, published)
		}
		if diff := compare.Diff(test.want, found.verdict().Traces); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A process of an aggregated API server that came and went between two looks has changed what such processes leave
// behind.
func TestAnEpochOfAnAggregatedResourceStartsAfterItsTracesHaveChanged(t *testing.T) {
	service := &snapshot.Service{Name: "v1.x", ID: "u/1", Slices: []string{"endpointslice default/x generation 4"}}
	look := func() findings {
		return findings{target: aggregatedTarget(), service: service, traces: service.Traces()}
	}
	published := look()
	published.declarations = []snapshot.StorageVersion{{API: snapshot.OurAPI, ID: "s/7"}}
	published.traces = published.tracesAnd(published.traces)
	e := migrate.Epoch{Hash: "h", Servers: []string{"192.0.2.21:443/p"}}
	for name, tt := range map[string]struct {
		second findings
		want   time.Time
	}{
		"nothing happened":               {look(), noon},
		"the StorageVersion has changed": {published, at(time.Minute)},
	} {
		m := servers.Memory{}.Next(e, servers.StampsOf(look().seen()), servers.Clocks{}, noon)
		if m = m.Next(e, servers.StampsOf(tt.second.seen()), servers.Clocks{}, at(time.Minute)); !m.Since.Equal(tt.want) {
			t.Errorf("%s: since %s, want %s", name, m.Since, tt.want)
		}
	}
}

func aggregatedTarget() migrate.Target {
	target := deviceClasses
	target.Origin = migrate.Aggregated
	return target
}
