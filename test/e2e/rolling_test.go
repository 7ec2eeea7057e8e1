// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	deviceName = "deviceclasses.resource.k8s.io"
	devicePath = "/apis/resource.k8s.io/v1/deviceclasses"
	deviceNew  = "resource.k8s.io/v1"
	deviceOld  = "resource.k8s.io/v1beta2"
)

var deviceKind = testbed.Kind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass", Plural: "deviceclasses", Prefix: "/registry/deviceclasses/"}

// What an API server has of its own before and after its upgrade. heldBack is that of a server which still encodes as the release before.
var (
	heldBack  = []string{"--min-compatibility-version=1.33"}
	upgraded  = []string{}
	declaring = []string{"--feature-gates=StorageVersionAPI=true", "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"}
)

// quickStop makes an API server that is told to end wait no longer than this for watches that are open.
var quickStop = []string{"--request-timeout=5s"}

// rolling is a cluster of several API servers behind one address, with a controller, somebody who writes through all servers all
// the time, and a watchman.
type rolling struct {
	*controlled
	watch *watchman
	extra []string // flags of all servers
}

// roll starts one whose servers have the given flags.
func roll(t *testing.T, extra []string, servers ...[]string) *rolling {
	t.Helper()
	var options []testbed.ServerOptions
	for _, flags := range servers {
		options = append(options, testbed.ServerOptions{Flags: slices.Concat(extra, flags)})
	}
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true, Servers: options, Flags: quickStop})
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	c := newControlled(t, cluster)
	if c.kubeconfig, err = balancer.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	r := &rolling{controlled: c, extra: extra}
	for i, server := range cluster.Servers {
		r.write(t.Context(), server, http.MethodPost, fmt.Sprintf("first-%d", i))
	}
	r.watch = watchTruth(t, cluster, deviceKind)
	r.writeAllTheTime()
	r.triggering("--include=" + deviceName)
	return r
}

// write creates a DeviceClass or touches one, and reports whether the server did it.
func (r *rolling) write(ctx context.Context, s *testbed.Server, method, name string) bool {
	path, body := devicePath, map[string]any{
		"apiVersion": deviceNew, "kind": "DeviceClass", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"selectors": []any{map[string]any{"cel": map[string]any{"expression": `device.driver == "gpu.example.com"`}}}},
	}
	if method == http.MethodPatch {
		path, body = devicePath+"/"+name, map[string]any{"metadata": map[string]any{"labels": map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}}}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, _, err := s.Do(ctx, method, path, mustJSON(body))
	return err == nil && status/100 == 2
}

// writeAllTheTime creates and touches objects through all servers until the test ends; what a server that is away answers is no matter.
func (r *rolling) writeAllTheTime() {
	ctx, cancel := context.WithCancel(r.Context())
	var work sync.WaitGroup
	for i, server := range r.cluster.Servers {
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r.write(ctx, server, http.MethodPost, fmt.Sprintf("written-%d-%d", i, n))
				r.write(ctx, server, http.MethodPatch, fmt.Sprintf("first-%d", n%len(r.cluster.Servers)))
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	r.Cleanup(func() {
		cancel()
		work.Wait()
	})
}

// become restarts a server with other flags: an upgrade, or a downgrade.
func (r *rolling) become(i int, flags []string) {
	r.Helper()
	s := r.cluster.Servers[i]
	r.watch.starting(s)
	if err := s.RestartWith(r.Context(), testbed.ServerOptions{Flags: slices.Concat(r.extra, flags)}); err != nil {
		r.Fatal(err)
	}
	r.watch.started(s)
}

// ends waits until everything is in one version.
func (r *rolling) ends(version string) {
	r.Helper()
	short := version[strings.LastIndex(version, "/")+1:]
	r.untilState(deviceName, "proven to be in "+version, persistedOnly(short))
	if held := stored(r.T, r.cluster, deviceKind.Prefix); len(held) != 1 || held[version] == 0 {
		r.Errorf("etcd holds %v, want all in %s", held, version)
	}
}

func TestServersThatDisagreeAreWaitedFor(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, upgraded, heldBack)
	s := r.untilState(deviceName, "recorded by both servers' own words", func(s *v1alpha1.StorageState) bool {
		answered := 0 // one that is busy may not answer the first time: then the disagreement is known from samples at first
		for _, server := range s.Status.ServerStorageVersions {
			if server.Answered && server.HolderIdentity != "" {
				answered++
			}
		}
		return holds(s, v1alpha1.AllEncodingVersionsEqual) == metav1.ConditionFalse && answered == 2
	})
	for _, version := range []string{deviceOld, deviceNew} {
		if !slices.Contains(s.Status.PersistedStorageVersionHashes, deviceKind.Hash(version)) {
			t.Errorf("persisted are %v without %s", s.Status.PersistedVersions, version)
		}
	}
	shown := map[string]string{}
	for _, server := range s.Status.ServerStorageVersions {
		shown[server.APIServerID] = server.EncodingVersion
	}
	if len(shown) != 2 || s.Status.AgreedEncodingVersion != "" || s.Status.CurrentStorageVersionHash != v1alpha1.Unknown {
		t.Errorf("servers are %v, agreed on %q, current %s", shown, s.Status.AgreedEncodingVersion, s.Status.CurrentStorageVersionHash)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == v1alpha1.AllEncodingVersionsEqual && (!strings.Contains(c.Message, "v1beta2") || !strings.Contains(c.Message, "api-0") || !strings.Contains(c.Message, "api-1")) {
			t.Errorf("the condition says %q, want both servers and what they write", c.Message)
		}
	}
	time.Sleep(3 * time.Second)
	if _, err := r.read(deviceName); err == nil {
		t.Error("a migration was asked for although the servers disagree")
	}
	r.become(1, upgraded)
	r.ends(deviceNew)
}
