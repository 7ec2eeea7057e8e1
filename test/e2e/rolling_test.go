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
	cluster := testbed.New(t, testbed.Options{Release: testbed.V136, Isolated: true, Servers: options})
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
	s := r.untilState(deviceName, "recorded", func(s *v1alpha1.StorageState) bool {
		return holds(s, v1alpha1.AllEncodingVersionsEqual) == metav1.ConditionFalse
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

func TestARollingUpgradeAndADowngradeInTheMiddle(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	r.become(0, upgraded)
	r.become(1, upgraded)
	r.become(0, heldBack)
	r.become(1, heldBack)
	r.ends(deviceOld)
	for i := range r.cluster.Servers {
		r.become(i, upgraded)
	}
	r.ends(deviceNew)
}

func TestARollingUpgradeOfServersThatDeclareWhatTheyStore(t *testing.T) {
	t.Parallel()
	r := roll(t, declaring, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	for i := range r.cluster.Servers {
		r.become(i, upgraded)
	}
	r.ends(deviceNew)
	if s := r.state(deviceName); s.Status.Evidence != "Declared" {
		t.Errorf("the evidence is %s, want Declared", s.Status.Evidence)
	}
}

func TestARollingUpgradeWhereOneServerDeclaresWhatItStores(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, slices.Concat(heldBack, declaring), heldBack, heldBack)
	r.ends(deviceOld)
	r.become(0, declaring)
	r.become(1, upgraded)
	r.become(2, upgraded)
	r.ends(deviceNew)
	if s := r.state(deviceName); s.Status.Evidence != "Observed" {
		t.Errorf("the evidence is %s, want Observed", s.Status.Evidence)
	}
}

func TestServersThatCrashReturnAndPassBy(t *testing.T) {
	t.Parallel()
	r := roll(t, nil, heldBack, heldBack, heldBack)
	r.ends(deviceOld)
	crashed := r.cluster.Servers[2]
	r.become(0, upgraded)
	crashed.Kill()
	r.become(1, upgraded)
	r.ends(deviceNew) // once nobody expects the crashed one any more

	// It returns as it was.
	r.watch.starting(crashed)
	if err := crashed.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.watch.started(crashed)
	r.untilState(deviceName, "in doubt again", func(s *v1alpha1.StorageState) bool {
		return slices.Contains(s.Status.PersistedStorageVersionHashes, deviceKind.Hash(deviceOld))
	})
	r.become(2, upgraded)
	r.ends(deviceNew)

	// One starts, writes and dies before anybody can have looked twice.
	passing := r.cluster.Servers[2]
	passing.Kill()
	r.watch.starting(passing)
	r.passBy(passing, heldBack)
	r.untilState(deviceName, "in doubt once more", func(s *v1alpha1.StorageState) bool {
		return !persistedOnly("v1")(s)
	})
	r.ends(deviceNew)
}

// passBy starts a server, writes through it as soon as it has its identity Lease, and kills it. Before that no load balancer sends
// anybody to it, and nothing would be left to notice.
func (r *rolling) passBy(s *testbed.Server, flags []string) {
	r.Helper()
	before := r.identities()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var work sync.WaitGroup
	work.Go(func() {
		if err := s.RestartWith(ctx, testbed.ServerOptions{Flags: slices.Concat(r.extra, flags)}); err != nil && ctx.Err() == nil {
			r.Logf("the server that passes by: %v", err)
		}
	})
	eventually(r.T, "the server that passes by has a Lease", func() bool {
		return slices.ContainsFunc(r.identities(), func(id string) bool { return !slices.Contains(before, id) })
	})
	wrote := r.write(ctx, s, http.MethodPatch, "first-0")
	s.Kill()
	cancel()
	work.Wait()
	if held := stored(r.T, r.cluster, deviceKind.Prefix); !wrote || held[deviceOld] == 0 {
		r.Errorf("etcd holds %v: the server that passed by wrote nothing", held)
	}
}

// identities are the holders of the identity Leases.
func (r *rolling) identities() (holders []string) {
	r.Helper()
	var leases struct {
		Items []struct {
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		} `json:"items"`
	}
	get(r.T, r.cluster, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver", &leases)
	for _, l := range leases.Items {
		holders = append(holders, l.Spec.HolderIdentity)
	}
	return holders
}
