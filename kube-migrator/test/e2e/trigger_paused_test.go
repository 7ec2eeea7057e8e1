// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// interrupting does something while the controller's request to create its fifth migration is under way.
func interrupting(proxy *testbed.Proxy, f func()) {
	proxy.SetRules(testbed.Rule{Fault: testbed.Overtaken(f), Skip: 4, Times: 1, Match: func(r *http.Request) bool {
		return r.Method == http.MethodPost && r.URL.Path == migrations
	}})
}

// all are all migrations that there are, by name.
func (c *controlled) all() map[string]v1alpha1.StorageVersionMigration {
	c.Helper()
	var list v1alpha1.StorageVersionMigrationList
	decode(c.T, do(c.T, c.cluster, http.MethodGet, migrations, nil), &list)
	byName := map[string]v1alpha1.StorageVersionMigration{}
	for _, m := range list.Items {
		byName[m.Name] = m
	}
	return byName
}

// works is what is asked for and being done, by name.
func (c *controlled) works() map[string]string {
	works := map[string]string{}
	for name, m := range c.all() {
		works[name] = fmt.Sprint(m.Spec.Generation, m.Spec.State, m.Status.State, m.Status.Run.Attempt,
			m.Status.Progress.Done)
	}
	return works
}

// inPhases counts StorageStates of resources that are not excluded.
func (c *controlled) inPhases() (migrated, left int) {
	c.Helper()
	var list v1alpha1.StorageStateList
	decode(c.T, do(c.T, c.cluster, http.MethodGet, states, nil), &list)
	for i := range list.Items {
		switch list.Items[i].Status.State {
		case v1alpha1.StoragePhaseMigrated:
			migrated++
		case v1alpha1.StoragePhaseExcluded:
		default:
			left++
		}
	}
	return migrated, left
}

// pausesABootstrap expects that the widgets are migrated, and that no controller runs.
func (c *controlled) pausesABootstrap(t *testing.T, proxy *testbed.Proxy) {
	tool := newCLI(t, c.cluster)
	arguments := []string{"--include=widgets.*,*.apps,*.batch,*.networking.k8s.io", "--discovery-period=1s"}
	moveStorage(t, c.cluster, "v1")
	c.change(widgetsName, `{"spec": {"pace": {"maxObjectsPerSecond": 5}}}`) // outlasts what follows
	paused := make(chan output, 1)
	interrupting(proxy, func() { paused <- tool.run(0, "pause", "--all") })
	p := c.triggering(arguments...)
	said := <-paused
	if !strings.Contains(
		said.stderr, "The controller requests no further migration until: kube-migrator resume --all",
	) {
		t.Errorf("pause --all said %q", said.stderr)
	}
	eventually(t, "everything has stopped", func() bool {
		for _, m := range c.all() {
			if m.Spec.State != v1alpha1.StatePaused || m.Status.State != v1alpha1.PhasePaused &&
				m.Status.State != v1alpha1.PhaseSucceeded || strings.HasPrefix(m.Status.Summary, "Stopping") {
				return false
			}
		}
		return true
	})
	before, left := c.works(), stored(t, c.cluster, testbed.WidgetsPrefix)
	if left[v2] == 0 || len(before) > 10 {
		t.Fatalf("%d migrations are requested, and the widgets are stored as %v: nothing is paused in the middle",
			len(before), left)
	}
	c.looked(widgetsName)
	if diff := cmp.Diff(before, c.works()); diff != "" {
		t.Errorf("while everything is paused (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(left, stored(t, c.cluster, testbed.WidgetsPrefix)); diff != "" {
		t.Errorf("while everything is paused widgets are rewritten (-before +after):\n%s", diff)
	}
	c.end(p) // nor does another controller begin
	p = c.triggering(arguments...)
	c.looked(widgetsName)
	if diff := cmp.Diff(before, c.works()); diff != "" {
		t.Errorf("another controller, while everything is paused (-before +after):\n%s", diff)
	}

	tool.run(0, "resume", "--all")
	c.change(widgetsName, `{"spec": {"pace": {"maxObjectsPerSecond": 0}}}`)
	eventually(t, "everything is proven", func() bool {
		migrated, left := c.inPhases()
		return migrated > 10 && left == 0
	})
	if migrated, _ := c.inPhases(); len(c.all()) != migrated {
		t.Errorf("%d migrations of %d resources", len(c.all()), migrated)
	}
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v1: 100})
	c.end(p)
	t.Run("and cancelled in the middle of the next one",
		func(t *testing.T) { c.cancelsABootstrap(t, proxy, tool, arguments) })
}

// cancelsABootstrap makes the controller find out everything again.
func (c *controlled) cancelsABootstrap(t *testing.T, proxy *testbed.Proxy, tool *cli, arguments []string) {
	for _, path := range []string{migrations, states} {
		do(t, c.cluster, http.MethodDelete, path, nil)
	}
	moveStorage(t, c.cluster, "v2")
	cancelled := make(chan output, 1)
	interrupting(proxy, func() {
		tool.run(0, "pause", "--all")
		cancelled <- tool.run(0, "cancel", "--all")
	})
	c.triggering(arguments...)
	if said := <-cancelled; !strings.Contains(
		said.stderr,
		"The controller may still request migrations of other resources. To prevent that: kube-migrator pause --all",
	) {
		t.Errorf("cancel --all said %q", said.stderr)
	}
	eventually(t, "the one that was under way is paused", func() bool {
		paused := 0
		for _, m := range c.all() {
			if m.Spec.State == v1alpha1.StatePaused {
				paused++
			} else if m.Spec.State != v1alpha1.StateCancelled {
				return false
			}
		}
		return paused == 1
	})
	tool.run(0, "cancel", "--all")
	before := c.all()
	tool.run(0, "resume", "--all")
	// The other resources are migrated; what was cancelled is neither resumed nor requested again.
	eventually(t, "the other resources are migrated",
		func() bool { migrated, left := c.inPhases(); return migrated > 5 && left == len(before) })
	after := c.all()
	for name, m := range before {
		if now := after[name]; now.UID != m.UID || now.Spec.State != v1alpha1.StateCancelled ||
			now.Spec.Generation != m.Spec.Generation || now.Status.CompletedGeneration != 0 {
			t.Errorf("%s was cancelled, and is %+v", name, now)
		}
	}
	if len(before) != 5 {
		t.Errorf("%d migrations were cancelled: not in the middle", len(before))
	}
}
