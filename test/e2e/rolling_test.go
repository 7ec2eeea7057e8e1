// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
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

// written is a resource that is written all the time while servers are upgraded.
type written struct {
	kind testbed.Kind
	// path is that of its collection.
	path string
	spec map[string]any
}

// deviceClasses are stored as v1beta2 by servers of 1.36 that a flag holds back, and as v1 by others.
var deviceClasses = written{
	kind: testbed.Kind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass", Plural: "deviceclasses",
		Prefix: "/registry/deviceclasses/"},
	path: "/apis/resource.k8s.io/v1/deviceclasses",
	spec: map[string]any{
		"selectors": []any{map[string]any{"cel": map[string]any{"expression": `device.driver == "gpu.example.com"`}}},
	},
}

const (
	deviceNew = "resource.k8s.io/v1"
	deviceOld = "resource.k8s.io/v1beta2"
)

// widgets are stored as their CustomResourceDefinition says.
var widgets = written{
	kind: widgetKind, path: "/apis/" + testbed.WidgetGroup + "/v1/namespaces/default/widgets",
	spec: map[string]any{"color": "red"},
}

// edition is what an API server has of its own before or after its upgrade.
type edition struct {
	release testbed.Release // default: that of the cluster
	flags   []string
	stores  string // the apiVersion that it writes
}

// declaring is the edition with the StorageVersion API.
func (e edition) declaring() edition {
	e.flags = slices.Concat(e.flags, []string{"--feature-gates=StorageVersionAPI=true",
		"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"})
	return e
}

func (e edition) options() testbed.ServerOptions {
	return testbed.ServerOptions{Release: e.release, Flags: append([]string{}, e.flags...)}
}

// heldBack is a server of 1.36 that still encodes as older ones, so that one binary can be upgraded.
var (
	heldBack = edition{flags: []string{"--min-compatibility-version=1.33"}, stores: deviceOld}
	upgraded = edition{stores: deviceNew}
)

// An API server that is told to end waits no longer than its request timeout for watches that are open. Twice that is
// the settle time.
const settleOfQuickStop = "--settle-time=10s"

var quickStop = []string{"--request-timeout=5s"}

// rolling is a cluster of several API servers behind one address, with a controller, a client that writes through all
// servers all the time, and a truthWatch.
type rolling struct {
	*controlled
	what    written
	watch   *truthWatch
	holders []string // the identity that each server had when it was ended last
}

// roll starts one whose servers store what is written in their own ways. No controller runs yet, see start.
func roll(t *testing.T, what written, servers ...edition) *rolling {
	t.Helper()
	options := testbed.Options{Release: testbed.V136, Isolated: true, Flags: quickStop}
	for _, e := range servers {
		options.Servers = append(options.Servers, e.options())
	}
	cluster := testbed.New(t, options)
	balancer, err := cluster.Balance()
	if err != nil {
		t.Fatal(err)
	}
	r := &rolling{controlled: newControlled(t, cluster), what: what, holders: make([]string, len(servers))}
	if r.kubeconfig, err = balancer.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	r.watch = watchTruth(t, cluster, what.kind)
	for i, server := range cluster.Servers {
		r.watch.begins(server, servers[i].stores)
		r.wantShown(i, servers[i])
	}
	return r
}

// start begins to write through all servers, and starts a controller that is replaced when it ends.
func (r *rolling) start(also ...written) {
	r.Helper()
	include := []string{"--auto-trigger", "--max-concurrent-migrations=8", settleOfQuickStop}
	for _, w := range append(also, r.what) {
		r.writeAllTheTime(w)
		include = append(include, "--include="+w.kind.Name())
	}
	r.supervise(include...)
}

// wantShown expects that a server says that it stores what is written as its edition does.
func (r *rolling) wantShown(i int, e edition) {
	r.Helper()
	if hash, err := r.cluster.Servers[i].Shows(r.Context(), r.what.kind); err != nil ||
		hash != r.what.kind.Hash(e.stores) {
		r.Fatalf("server %d shows %s (%v), want the hash of %s: the edition changes nothing", i, hash, err, e.stores)
	}
}

// write creates an object or touches one, and reports whether the server did it.
func (r *rolling) write(ctx context.Context, s *testbed.Server, w written, method, name string) bool {
	metadata := map[string]any{"name": name}
	path, body := w.path, map[string]any{"apiVersion": w.kind.Group + "/" + w.version(), "kind": w.kind.Kind,
		"metadata": metadata, "spec": w.spec}
	if method == http.MethodPatch {
		path, body = w.path+"/"+name, map[string]any{
			"metadata": map[string]any{"labels": map[string]string{"at": fmt.Sprint(time.Now().UnixNano())}},
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, _, err := s.Do(ctx, method, path, mustJSON(body))
	return err == nil && status/100 == 2
}

// version is that of the path.
func (w written) version() string { return strings.Split(w.path, "/")[3] }

// writeAllTheTime creates and touches objects through all servers until the test ends. What a server that is away
// answers does not matter.
func (r *rolling) writeAllTheTime(w written) {
	ctx, cancel := context.WithCancel(r.Context())
	var work sync.WaitGroup
	for i, server := range r.cluster.Servers {
		r.write(ctx, server, w, http.MethodPost, fmt.Sprintf("first-%d", i))
		work.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if n%5 == 0 {
					r.write(ctx, server, w, http.MethodPost, fmt.Sprintf("written-%d-%d", i, n))
				}
				r.write(ctx, server, w, http.MethodPatch, fmt.Sprintf("first-%d", n%len(r.cluster.Servers)))
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

// become replaces a server's process by one of another edition, an upgrade or a downgrade, and waits until the trigger
// has seen it.
func (r *rolling) become(i int, to edition) {
	r.Helper()
	r.end(i)
	s := r.cluster.Servers[i]
	r.watch.begins(s, to.stores)
	if err := s.RestartWith(r.Context(), to.options()); err != nil {
		r.Fatal(err)
	}
	r.wantShown(i, to)
	r.known(i)
}

// end ends a server's process in an orderly way, once the trigger has seen it: see truthWatch.
func (r *rolling) end(i int) {
	r.Helper()
	r.known(i)
	r.holders[i] = r.holder(i)
	if err := r.cluster.Servers[i].Stop(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.watch.ended(r.cluster.Servers[i])
}

// known waits until the StorageState says what the present process of a server has answered.
func (r *rolling) known(i int) *v1alpha1.StorageState {
	r.Helper()
	return r.untilState(
		r.what.kind.Name(),
		fmt.Sprintf("recorded with the present process of server %d", i),
		func(s *v1alpha1.StorageState) bool {
			holder := r.holder(i)
			return holder != r.holders[i] &&
				slices.ContainsFunc(s.Status.ServerStorageVersions, func(v v1alpha1.ServerEncodingVersion) bool {
					return v.HolderIdentity == holder && v.Answered
				})
		},
	)
}

// holder is the identity in the Lease of a server's host; "" while there is none, or it cannot be read.
func (r *rolling) holder(i int) string {
	path := fmt.Sprintf(
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=kubernetes.io/hostname=api-%d",
		i,
	)
	status, answer, err := r.cluster.Servers[i].Do(r.Context(), http.MethodGet, path, nil)
	var leases struct {
		Items []struct {
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &leases) != nil || len(leases.Items) != 1 {
		return ""
	}
	return leases.Items[0].Spec.HolderIdentity
}

// ends waits until everything is in one version.
func (r *rolling) ends(version string) {
	r.Helper()
	short := version[strings.LastIndex(version, "/")+1:]
	r.untilState(r.what.kind.Name(), "proven to be in "+version, persistedOnly(short))
	if held := stored(r.T, r.cluster, r.what.kind.Prefix); len(held) != 1 || held[version] == 0 {
		r.Errorf("etcd holds %v, want all in %s", held, version)
	}
	r.watch.more(r.T, 20)
}

// bindings are stored as v1beta1 by kube-apiserver 1.36 and as v1 by 1.37, without a flag. They bind no policy that
// there is.
var bindings = written{
	kind: testbed.Kind{
		Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding",
		Plural: "mutatingadmissionpolicybindings",
		Prefix: "/registry/mutatingadmissionpolicybindings/",
	},
	path: "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
	spec: map[string]any{"policyName": "none.example.com"},
}

// Two API servers are upgraded from one release to the next one after the other, and one of them goes back in the
// middle. Meanwhile a custom resource's storage version moves twice.
func TestTwoBinariesOfARollingUpgradeWithADowngradeInTheMiddle(t *testing.T) {
	t.Parallel()
	before := edition{release: testbed.V136, stores: "admissionregistration.k8s.io/v1beta1"}
	after := edition{release: testbed.V137, stores: "admissionregistration.k8s.io/v1"}
	r := roll(t, bindings, before, before)
	if err := r.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	custom := watchTruth(t, r.cluster, widgetKind)
	r.start(widgets)
	r.ends(before.stores)
	r.sweptTo("v1", custom)

	r.become(0, after)
	r.wantDisagreement(before, after)
	custom.moving(t, "v2")
	r.become(0, before)
	r.ends(before.stores)
	r.sweptTo("v2", custom)

	r.become(1, after)
	r.wantDisagreement(before, after)
	custom.moving(t, "v1")
	r.become(0, after)
	r.ends(after.stores)
	r.sweptTo("v1", custom)
	for _, w := range []*truthWatch{r.watch, custom} {
		w.wantJudged(t)
	}
	told := slices.DeleteFunc(r.told(bindings.kind.Name()),
		func(reason string) bool { return !strings.HasPrefix(reason, "EncodingVersions") })
	for i, reason := range told {
		if want := []string{"EncodingVersionsDisagree", "EncodingVersionsAgree"}[i%2]; reason != want {
			t.Errorf("Event %d of %v is about no change", i, told)
		}
	}
	if len(told) < 4 || len(told)%2 != 0 {
		t.Errorf("Events tell %v, want of two disagreements, and of the agreement after each", told)
	}
}

// sweptTo waits until all widgets are proven to be in a version.
func (r *rolling) sweptTo(version string, w *truthWatch) {
	r.Helper()
	r.untilState(widgetsName, "proven to be in "+version, persistedOnly(version))
	w.more(r.T, 20)
}

// wantDisagreement waits until both servers' own words are recorded and etcd holds what both write, and expects that no
// migration is asked for.
func (r *rolling) wantDisagreement(one, other edition) {
	r.Helper()
	name := r.what.kind.Name()
	s := r.untilState(name, "recorded by both servers' own words", func(s *v1alpha1.StorageState) bool {
		// one that is busy may not answer the first time: then the disagreement is known from samples at first
		answered := 0
		for _, server := range s.Status.ServerStorageVersions {
			if server.Answered && server.HolderIdentity != "" {
				answered++
			}
		}
		return holds(s, v1alpha1.ConditionAllEncodingVersionsEqual) == metav1.ConditionFalse && answered == 2
	})
	for _, e := range []edition{one, other} {
		if !slices.Contains(s.Status.PersistedStorageVersionHashes, r.what.kind.Hash(e.stores)) {
			r.Errorf("persisted are %v without %s", s.Status.PersistedVersions, e.stores)
		}
	}
	shown := map[string]string{}
	for _, server := range s.Status.ServerStorageVersions {
		shown[server.APIServerID] = server.EncodingVersion
	}
	if len(shown) != 2 || s.Status.AgreedEncodingVersion != "" ||
		s.Status.CurrentStorageVersionHash != v1alpha1.Unknown {
		r.Errorf("servers are %v, agreed on %q, current %s", shown, s.Status.AgreedEncodingVersion,
			s.Status.CurrentStorageVersionHash)
	}
	for _, c := range s.Status.Conditions {
		if c.Type == v1alpha1.ConditionAllEncodingVersionsEqual &&
			(!strings.Contains(c.Message, "v1beta1") || !strings.Contains(c.Message, "api-0") ||
				!strings.Contains(c.Message, "api-1")) {
			r.Errorf("the condition says %q, want both servers and what they write", c.Message)
		}
	}
	generation := r.generation(name)
	eventually(r.T, "etcd holds what both servers write",
		func() bool { return len(stored(r.T, r.cluster, r.what.kind.Prefix)) == 2 })
	r.watch.more(r.T, 30)
	if now := r.generation(name); now != generation {
		r.Errorf("generation %d was asked for after %d although the servers disagree", now, generation)
	}
}

// Three API servers are upgraded one after the other while custom resources are being rewritten: each restart ends the
// sweep's epoch, and it goes on in the next one. What the upgrade changes, a built-in resource, is migrated once all
// are upgraded.
func TestThreeServersAreUpgradedUnderARunningSweep(t *testing.T) {
	t.Parallel()
	const n = 600
	r := roll(t, deviceClasses, heldBack, heldBack, heldBack)
	if err := r.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	if err := r.cluster.BulkCreate(t.Context(), testbed.Bulk{Count: n}); err != nil {
		t.Fatal(err)
	}
	custom := watchTruth(t, r.cluster, widgetKind)
	r.start(widgets)
	r.sweptTo("v1", custom)
	r.ends(deviceOld)

	// At this pace the sweep takes ten minutes, unless this test raises it: it outlasts the upgrade. What is written
	// again meanwhile is none of these objects.
	r.change(widgetsName, `{"spec": {"pace": {"maxObjectsPerSecond": 1}}}`)
	custom.moving(t, "v2")
	left := func() int { return stored(t, r.cluster, testbed.WidgetsPrefix)[v1] }
	for i := range r.cluster.Servers {
		before := left()
		eventually(t, "the sweep rewrites objects", func() bool { return left() < before })
		r.become(i, upgraded)
	}
	if left() == 0 {
		t.Fatal("the sweep was over before the upgrade: nothing was tested")
	}
	r.change(widgetsName, `{"spec": {"pace": {"maxObjectsPerSecond": 0}}}`)
	r.ends(deviceNew)
	r.sweptTo("v2", custom)
	if held := stored(t, r.cluster, testbed.WidgetsPrefix); len(held) != 1 || held[v2] < n {
		t.Errorf("etcd holds %v, want %d widgets or more, all in %s", held, n, v2)
	}
	for _, w := range []*truthWatch{r.watch, custom} {
		w.wantJudged(t)
	}
}
