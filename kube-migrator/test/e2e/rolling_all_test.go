// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

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

// written is a resource whose objects a client writes all the time while servers are upgraded.
type written struct {
	kind testbed.Kind
	path string // of the collection
	spec map[string]any
}

// deviceClasses are stored as v1beta2 by servers of 1.36 with the flag of heldBack, and as v1 by others.
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

// declaring adds the StorageVersion API to an edition.
func declaring(e testbed.Edition) testbed.Edition {
	e.Flags = slices.Concat(e.Flags, []string{"--feature-gates=StorageVersionAPI=true",
		"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"})
	return e
}

// heldBack is a server of 1.36 that encodes as older releases do. Without its flag it is upgraded, with the same
// binary.
var (
	heldBack = testbed.Edition{Flags: []string{"--min-compatibility-version=1.33"}, Stores: deviceOld}
	upgraded = testbed.Edition{Stores: deviceNew}
)

// An API server that shuts down waits no longer than its request timeout for open watches. The settle time is twice
// that.
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

// roll starts a cluster with one server in each edition. No controller runs yet, see start.
func roll(t *testing.T, what written, servers ...testbed.Edition) *rolling {
	t.Helper()
	options := testbed.Options{Release: testbed.V136, Isolated: true, Flags: quickStop}
	for _, e := range servers {
		options.Servers = append(options.Servers, e.Options())
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
		r.watch.begins(server, servers[i].Stores)
		r.wantShown(i, servers[i])
	}
	return r
}

// start begins to write through all servers, and starts a controller; when that ends, another takes its place.
func (r *rolling) start(also ...written) {
	r.Helper()
	include := []string{"--auto-trigger", "--max-concurrent-migrations=8", settleOfQuickStop}
	for _, w := range append(also, r.what) {
		r.writeAllTheTime(w)
		include = append(include, "--include="+w.kind.Name())
	}
	r.supervise(include...)
}

// wantShown expects that discovery of a server shows the storage version of its edition.
func (r *rolling) wantShown(i int, e testbed.Edition) {
	r.Helper()
	if hash, err := r.cluster.Servers[i].Shows(r.Context(), r.what.kind); err != nil ||
		hash != r.what.kind.Hash(e.Stores) {
		r.Fatalf("server %d shows %s (%v), want the hash of %s: the edition changes nothing", i, hash, err, e.Stores)
	}
}

// write creates an object or changes a label of one, and reports whether the server did it.
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

// version is the version in the path.
func (w written) version() string { return strings.Split(w.path, "/")[3] }

// writeAllTheTime creates objects and changes labels through all servers until the test ends. It ignores errors: one of
// the servers may be down.
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

// become replaces a server's process by one in another edition, as an upgrade or a downgrade does, and waits until the
// trigger has seen it.
func (r *rolling) become(i int, to testbed.Edition) {
	r.Helper()
	r.end(i)
	s := r.cluster.Servers[i]
	r.watch.begins(s, to.Stores)
	if err := s.RestartWith(r.Context(), to.Options()); err != nil {
		r.Fatal(err)
	}
	r.wantShown(i, to)
	r.known(i)
}

// end shuts a server down in an orderly way after the trigger has seen it (see truthWatch).
func (r *rolling) end(i int) {
	r.Helper()
	r.known(i)
	r.holders[i] = r.holder(i)
	if err := r.cluster.Servers[i].Stop(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.watch.ended(r.cluster.Servers[i])
}

// known waits until the StorageState has the answer of a server's present process.
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

// holder is the identity in the Lease of a server's host, or "" while there is none or it cannot be read.
func (r *rolling) holder(i int) string {
	holder, err := r.cluster.Servers[i].Holder(r.Context())
	if err != nil {
		return ""
	}
	return holder
}

// ends waits until all objects are in one version.
func (r *rolling) ends(version string) {
	r.Helper()
	short := version[strings.LastIndex(version, "/")+1:]
	r.untilState(r.what.kind.Name(), "proven to be in "+version, persistedOnly(short))
	if held := stored(r.T, r.cluster, r.what.kind.Prefix); len(held) != 1 || held[version] == 0 {
		r.Errorf("etcd holds %v, want all in %s", held, version)
	}
	r.watch.more(r.T, 20)
}

// bindings are policy bindings whose policy does not exist.
var bindings = written{
	kind: testbed.PolicyBindings(),
	path: "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
	spec: map[string]any{"policyName": "none.example.com"},
}

// Two API servers are upgraded to the next release one after the other, and one of them is downgraded in between, after
// which a user has to accept that objects are rewritten. Meanwhile a custom resource's storage version moves twice.
func TestTwoBinariesOfARollingUpgradeWithADowngradeInTheMiddle(t *testing.T) {
	t.Parallel()
	before, after := testbed.BeforeUpgrade(), testbed.AfterUpgrade()
	r := roll(t, bindings, before, before)
	if err := r.cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	custom := watchTruth(t, r.cluster, widgetKind)
	r.start(widgets)
	r.ends(before.Stores)
	r.sweptTo("v1", custom)

	r.become(0, after)
	r.wantDisagreement(before, after)
	custom.moving(t, "v2")
	r.become(0, before)
	r.sweptTo("v2", custom)
	r.wantHeldBack(after.Stores)
	newCLIWith(t, r.cluster, r.kubeconfig).run(0, "resume", "--all", "--accept-rollback")
	r.ends(before.Stores)

	r.become(1, after)
	r.wantDisagreement(before, after)
	custom.moving(t, "v1")
	r.become(0, after)
	r.ends(after.Stores)
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

// wantDisagreement waits until the answers of both servers are recorded and etcd holds objects in the versions of both,
// and expects that no migration is requested.
func (r *rolling) wantDisagreement(one, other testbed.Edition) {
	r.Helper()
	name := r.what.kind.Name()
	s := r.untilState(name, "recorded with both servers' answers", func(s *v1alpha1.StorageState) bool {
		// A busy server may not answer the first time. Then the trigger knows of the disagreement from samples at first.
		answered := 0
		for _, server := range s.Status.ServerStorageVersions {
			if server.Answered && server.HolderIdentity != "" {
				answered++
			}
		}
		return holds(s, v1alpha1.ConditionAllEncodingVersionsEqual) == metav1.ConditionFalse && answered == 2
	})
	for _, e := range []testbed.Edition{one, other} {
		if !slices.Contains(s.Status.PersistedStorageVersionHashes, r.what.kind.Hash(e.Stores)) {
			r.Errorf("persisted are %v without %s", s.Status.PersistedVersions, e.Stores)
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

// wantHeldBack expects that the API servers are known to be older than one that has written objects in a newer version,
// and that these are not rewritten (I3).
func (r *rolling) wantHeldBack(newer string) {
	r.Helper()
	name := r.what.kind.Name()
	r.untilState(name, "held back", func(s *v1alpha1.StorageState) bool {
		return holds(s, v1alpha1.ConditionRolledBack) == metav1.ConditionTrue
	})
	if told := r.told(name); !slices.Contains(told, "KubernetesRolledBack") {
		r.Errorf("Events tell %v, and nothing of the rollback", told)
	}
	generation := r.generation(name)
	r.watch.more(r.T, 30)
	if now := r.generation(name); now != generation {
		r.Errorf("generation %d was asked for after %d although the servers are older than the objects", now, generation)
	}
	if held := stored(r.T, r.cluster, r.what.kind.Prefix); held[newer] == 0 {
		r.Errorf("etcd holds %v: the objects of %s were rewritten", held, newer)
	}
}

// Three API servers are upgraded one after the other while custom resources are being rewritten: each restart ends the
// sweep's epoch, and the sweep goes on in the next one. The upgrade changes a built-in resource, which is migrated after
// the last restart.
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

	// At this pace the sweep takes ten minutes, unless the test raises it, so it outlasts the upgrade. The clients do not
	// write any of these objects.
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
