// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement/snapshot"
	"github.com/kube-migrator/kube-migrator/internal/compare"
)

const leaseList = `{"items": [
 {"metadata": {"name": "apiserver-b", "creationTimestamp": "2026-01-01T11:00:00Z",
   "labels": {"kubernetes.io/hostname": "api-2"}, "annotations": {"kubernetes.io/peer-advertise-address": "192.0.2.12:6443"}},
  "spec": {"holderIdentity": "apiserver-b_2", "renewTime": "2026-01-01T11:59:55.000000Z"}},
 {"metadata": {"name": "apiserver-c", "creationTimestamp": "2026-01-01T10:00:00Z"},
  "spec": {"holderIdentity": "apiserver-c_3", "renewTime": "2026-01-01T11:58:59.000000Z"}},
 {"metadata": {"name": "apiserver-a", "creationTimestamp": "2026-01-01T11:30:00Z"},
  "spec": {"holderIdentity": "apiserver-a_1", "renewTime": "2026-01-01T11:59:00.000000Z"}}
]}`

func TestLeasesTellLiveFromGoneByTheServersClock(t *testing.T) {
	ours := at(24 * time.Hour) // this machine's clock is wrong
	got, err := parseLeases([]byte(leaseList), noon, ours)
	if err != nil {
		t.Fatal(err)
	}
	if diff := compare.Diff([]string{"apiserver-a_1", "apiserver-b_2"}, got.Holders()); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	if len(got.Gone) != 1 || got.Gone[0].Holder != "apiserver-c_3" || !got.Gone[0].Renewed.Equal(at(-61*time.Second)) {
		t.Errorf("gone are %+v, want apiserver-c_3 alone, renewed 61 s ago", got.Gone)
	}
	if !got.Live[1].Created.Equal(at(-time.Hour)) {
		t.Errorf("apiserver-b was created at %v, want 11:00", got.Live[1].Created)
	}
	if name := got.NameOf("192.0.2.12:6443"); name != "api-2 (192.0.2.12:6443)" {
		t.Errorf("the server at that address is named %q", name)
	}
	if name := got.NameOf("192.0.2.13:6443"); name != "192.0.2.13:6443" {
		t.Errorf("an unknown server is named %q", name)
	}
}

func TestLeasesOfOtherServersAreNotThoseOfKubeAPIServers(t *testing.T) {
	var items []string
	for _, s := range []struct{ name, kind, renewed string }{
		{"a", "kube-apiserver", "11:59:55"}, {"b", "flunders", "11:59:55"}, {"c", "flunders", "11:58:59"},
		{"d", "fischers", "11:59:55"}, {"e", "flunders", "11:59:50"},
	} {
		items = append(items, fmt.Sprintf(`{"metadata": {"name": %q, "labels": {"apiserver.kubernetes.io/identity": %q}}, "spec": {"holderIdentity": "%s_1", "renewTime": "2026-01-01T%s.000000Z"}}`,
			s.name, s.kind, s.name, s.renewed))
	}
	got, err := parseLeases([]byte(`{"items": [`+strings.Join(items, ",")+`]}`), noon, noon)
	if err != nil {
		t.Fatal(err)
	}
	if diff := compare.Diff([]string{"a"}, got.Names()); diff != "" || len(got.Gone) > 0 {
		t.Errorf("kube-apiservers (-want +got):\n%sgone: %v", diff, got.Gone)
	}
	if diff := compare.Diff([]string{"b", "e"}, got.Kin("b")); diff != "" {
		t.Errorf("live servers of one kind (-want +got):\n%s", diff)
	}
	if kin := got.Kin("a"); kin != nil {
		t.Errorf("a kube-apiserver is of one kind with %v", kin)
	}
}

const sliceList = `{"items": [{"metadata": {"managedFields": [{"time": "2026-01-01T11:00:00Z"}, {"time": "2026-01-01T11:30:00Z"}]},
 "addressType": "IPv4", "ports": [{"name": "metrics", "port": 9}, {"name": "https", "port": 6443}],
 "endpoints": [{"addresses": ["192.0.2.12"], "conditions": {"ready": false}}, {"addresses": ["192.0.2.11"]}]}%s]}`

func TestEndpoints(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want snapshot.Endpoints
	}{
		"every address with the port named https, ready or not, and the newest change": {
			fmt.Sprintf(sliceList, ""),
			snapshot.Endpoints{Known: true, Addresses: []string{"192.0.2.11:6443", "192.0.2.12:6443"},
				Changed: at(-30 * time.Minute)},
		},
		"a slice without times makes the last change unknown": {
			fmt.Sprintf(sliceList, `, {"ports": [{"port": 443}], "endpoints": [{"addresses": ["2001:db8::1"]}]}`),
			snapshot.Endpoints{Known: true, Addresses: []string{"192.0.2.11:6443", "192.0.2.12:6443", "[2001:db8::1]:443"}},
		},
		"no slice tells nothing": {`{"items": []}`, snapshot.Endpoints{Known: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseEndpoints([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			got.Changed = got.Changed.UTC()
			if diff := compare.Diff(tt.want, got); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
		})
	}
}
