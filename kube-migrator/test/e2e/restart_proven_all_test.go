// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

var patchesOf = regexp.MustCompile(`(?m)^apiserver_request_total\{.*group="([^"]*)".*resource="([^"]*)".*` +
	`subresource="",verb="(?:PATCH|APPLY)".*\} (\d+)$`)

// patched returns how many objects of each resource the API server was asked to patch since it was started.
func patched(c *controlled) map[string]int {
	c.Helper()
	all := map[string]int{}
	for _, m := range patchesOf.FindAllStringSubmatch(string(do(c.T, c.cluster, http.MethodGet, "/metrics", nil)), -1) {
		name := m[2]
		if m[1] != "" {
			name += "." + m[1]
		}
		n, err := strconv.Atoi(m[3])
		if err != nil {
			c.Fatal(err)
		}
		all[name] += n
	}
	return all
}

// allStates returns the StorageStates, or none if the API server does not answer.
func (c *controlled) allStates() (list []v1alpha1.StorageState) {
	status, answer, err := c.cluster.Servers[0].Do(c.Context(), http.MethodGet, states, nil)
	if err != nil || status != http.StatusOK {
		return nil
	}
	all := new(v1alpha1.StorageStateList)
	if err := json.Unmarshal(answer, all); err != nil {
		c.Fatal(err)
	}
	return all.Items
}

// untilAll waits until every StorageState is as wanted.
func (c *controlled) untilAll(what string, is func(s *v1alpha1.StorageState) bool) {
	c.Helper()
	eventually(c.T, what, func() bool {
		list := c.allStates()
		for i := range list {
			if !is(&list[i]) {
				return false
			}
		}
		return len(list) > 0
	})
}

// The only API server and the controller are down for a while, and nothing shows what was written by whom. That makes
// every record Unknown, but what was proven before stays proven: only what was written since is rewritten.
func TestARestartOfTheControlPlaneCostsAListAndNoRewrite(t *testing.T) {
	t.Parallel()
	const n = 300
	c := newControlled(t, staleWidgets(t, n, testbed.Widgets{}))
	for i := range 20 {
		do(t, c.cluster, http.MethodPost, "/api/v1/namespaces/default/secrets", map[string]any{
			"metadata": map[string]any{"name": fmt.Sprint("before-", i)}})
	}
	arguments := []string{"--auto-trigger", "--max-concurrent-migrations=16"}
	p := c.launch(arguments...)
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	c.untilState("secrets", "proven", persistedOnly("v1"))
	isMigrated := func(s *v1alpha1.StorageState) bool { return s.Status.State == v1alpha1.StoragePhaseMigrated }
	c.untilAll("everything is migrated", isMigrated)
	c.untilAll("a look has confirmed what the runs have written", func(s *v1alpha1.StorageState) bool {
		m, err := c.read(s.Name)
		if err != nil || s.Status.Proven == nil {
			return false
		}
		baseline, _ := strconv.Atoi(m.Status.ResourceVersion)
		upTo, _ := strconv.Atoi(s.Status.Proven.ResourceVersion)
		return upTo > baseline && baseline > 0
	})
	before := map[string]string{}
	for _, s := range c.allStates() {
		before[s.Name] = s.Status.RequiredStartResourceVersion
	}
	p.Process.Kill() //nolint:errcheck // it lives
	p.Wait()         //nolint:errcheck // killed
	c.cluster.Servers[0].Kill()
	if err := c.cluster.Servers[0].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		do(t, c.cluster, http.MethodPatch, fmt.Sprintf("/apis/%s/namespaces/default/widgets/widget-%07d", v2, i),
			map[string]any{"metadata": map[string]any{"labels": map[string]string{"written": "since"}}})
	}
	byUsers := patched(c)
	began := time.Now()
	c.triggering(arguments[1:]...)
	c.untilAll("everything is in doubt, and migrated again", func(s *v1alpha1.StorageState) bool {
		return isMigrated(s) && s.Status.RequiredStartResourceVersion != before[s.Name]
	})
	t.Logf("everything is current again %v after the controller was started", time.Since(began).Round(time.Second))
	wantStored(t, c.cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	got := patched(c)
	t.Logf("patches: %v", got)
	if now := got[widgetsName] - byUsers[widgetsName]; now != 3 {
		t.Errorf("%d widgets were patched, want the 3 that were written since", now)
	}
	for _, quiet := range []string{"secrets", "serviceaccounts", "namespaces", "services", "apiservices.apiregistration.k8s.io",
		"clusterroles.rbac.authorization.k8s.io", "flowschemas.flowcontrol.apiserver.k8s.io",
		"customresourcedefinitions.apiextensions.k8s.io", "priorityclasses.scheduling.k8s.io"} {
		if got[quiet] != 0 {
			t.Errorf("%d objects of %s were patched, although none was written since", got[quiet], quiet)
		}
	}
}
