// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package aggregated

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Aggregated API servers under constant writes: each subtest goes on where the one before it has ended, and what etcd
// holds is checked at every revision.
func TestAnAggregatedAPIServer(t *testing.T) {
	t.Parallel()
	whole := newFleet(t, servers[0])
	whole.install()
	controller := whole.controller()
	whole.manage()
	w, stop := whole.watch(true)
	written := whole.writeConstantly()
	var replicas []*replica
	whole.run("a first release that can decode one version alone needs no migration", func(f *fleet) {
		replicas = append(replicas, f.start("--encoding=v1", "--decodable=v1"))
		if s := f.proven(v1, "Declared"); !s.Status.OnlyDecodable {
			f.Errorf("the record does not rest on what the server declares: %+v", s.Status)
		}
		if m := f.migration(); m.Name != "" {
			f.Errorf("a migration was requested: %+v", m)
		}
	})
	for _, server := range servers {
		whole.server = server
		whole.run("two replicas of "+server.command+" are upgraded one after the other", func(f *fleet) {
			replicas = f.replace(replicas, "--encoding=v1")
			f.proven(v1, "Declared")
			replicas = f.replace(replicas, "--encoding=v2")
			f.proven(v2, "Declared")
			if n := w.held(v1); n > 0 {
				f.Errorf("v2 is proven, and %d objects are stored as v1", n)
			}
		})
		if server.command == "plain" { // the long test does both with each
			whole.run("a replica of plain is killed between publishing and serving", w.killSilent)
		} else {
			whole.run("a replica of generic ends while it writes", w.endWhileWriting)
		}
	}
	whole.run("the commands know the resource", commands)
	whole.run("kube-controller-manager and kube-migrator collect the garbage of their own APIs", func(f *fleet) {
		live := f.entriesOf("apps.deployments")
		entry := map[string]any{"apiServerID": "never-lived", "encodingVersion": v1, "decodableVersions": []string{v1}}
		for _, api := range []string{"internal.apiserver.k8s.io", "migration.k8s.io"} {
			path := "/apis/" + api + "/v1alpha1/storageversions"
			f.do(http.MethodPost, path, map[string]any{"apiVersion": api + "/v1alpha1", "kind": "StorageVersion",
				"metadata": map[string]any{"name": group + ".sprockets"}})
			f.do(http.MethodPatch, path+"/"+group+".sprockets/status", map[string]any{"status": map[string]any{
				"storageVersions": []any{entry}, "commonEncodingVersion": v1}})
		}
		f.eventually("both entries are removed", func() bool {
			ours, err := f.cluster.Raw(f.Context(), strings.TrimSuffix(published, "gears")+"sprockets")
			return len(f.entriesOf(group+".sprockets")) == 0 &&
				(err != nil || !strings.Contains(string(ours), `"apiServerID":"never-lived"`))
		})
		if w.publishers() != 2 || len(live) != 1 || !slices.Equal(f.entriesOf("apps.deployments"), live) {
			f.Errorf("%d replicas publish, and kube-apiservers %v, before %v", w.publishers(),
				f.entriesOf("apps.deployments"), live)
		}
	})
	whole.run("a replica that crashes and restarts within its Lease's duration keeps its entry", func(f *fleet) {
		r := replicas[0].in(f)
		r.Kill()
		time.Sleep(leaseDuration / 2)
		r.run()
		f.eventually("it is ready again", r.ready)
		if w.removals(r.id) > 0 || w.entry(r.id) != v2 {
			f.Errorf("the entry was removed %d times, and is of %q", w.removals(r.id), w.entry(r.id))
		}
	})
	controller.Kill()
	whole.run("a default installation migrates what came after it", func(f *fleet) { aDefaultInstallation(f, replicas) })
	stop()
	if n := written(); n < 300 {
		t.Errorf("%d writes: the test shows nothing", n)
	}
}

// endWhileWriting ends a replica of the old version that has a write in flight: its entry goes after the write, which the
// watcher compares. The replica lives for a few seconds, and its object is migrated all the same.
func (w *watcher) endWhileWriting(f *fleet) {
	r := f.launch("--encoding=v1", "--write-delay=2s")
	f.eventually(r.id+" is ready", r.ready)
	answer := make(chan int, 1)
	go func() {
		answer <- r.curl(http.MethodPost, gearsPath, map[string]any{"metadata": map[string]any{"name": "by-" + r.id}})
	}()
	time.Sleep(500 * time.Millisecond) // the write has passed the barrier, and waits
	r.end()
	if code := <-answer; code != http.StatusCreated {
		f.Errorf("the write in flight got %d", code)
	}
	ended := time.Now()
	f.eventually("its write was seen, and its entry is withdrawn", func() bool {
		return w.writesBy(r.id) == 1 && w.entry(r.id) == ""
	})
	if after := time.Since(ended); after > leaseDuration/2 {
		f.Errorf("the replica has left its entry to others, who removed it after %s", after)
	}
	f.eventually("its object is rewritten", func() bool { return w.held(v1) == 0 })
	f.proven(v2, "Declared")
}

// killSilent kills a replica that has published and written nothing.
func (w *watcher) killSilent(f *fleet) {
	r := f.launch(append([]string{"--encoding=v1"}, f.server.silent...)...)
	f.eventually("it publishes", func() bool { return w.entry(r.id) == v1 })
	r.Kill()
	killed := time.Now()
	f.eventually("its entry is removed", func() bool { return w.entry(r.id) == "" })
	if after := time.Since(killed); after > leaseDuration+10*time.Second {
		f.Errorf("the entry was removed after %s", after)
	}
	f.proven(v2, "Declared")
}

// commands runs what an administrator runs.
func commands(f *fleet) {
	var plan struct {
		Resources []struct{ Name string }
	}
	code, out, problem := f.command("plan", gearsName, "-o", "json")
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Resources) != 1 ||
		plan.Resources[0].Name != gearsName {
		f.Errorf("plan: %d %v\n%s%s", code, err, out, problem)
	}
	if code, out, problem = f.command("migrate", gearsName, "--settle-time=1s", "-o", "json"); code != 0 ||
		!strings.Contains(out, `"Proven"`) {
		f.Errorf("migrate: %d\n%s%s", code, out, problem)
	}
	if code, out, problem = f.command("check", gearsName); code != 0 || !strings.Contains(out, "Safe") {
		f.Errorf("check: %d\n%s%s", code, out, problem)
	}
	for target, want := range map[string]string{
		"--target-server=" + f.cluster.Servers[0].URL(): "declare that they can decode v2",
		"--target-version=1.37":                         "they are not a part of Kubernetes",
	} {
		if code, out, problem = f.command("check", gearsName, target, "-o", "json"); code != 0 ||
			!strings.Contains(out, want) {
			f.Errorf("check %s: %d\n%s%s", target, code, out, problem)
		}
	}
	if code, _, problem = f.command("retire", gearsName, "--version=v1"); code != 1 ||
		!strings.Contains(problem, "custom resource") {
		f.Errorf("retire: %d\n%s", code, problem)
	}
}
