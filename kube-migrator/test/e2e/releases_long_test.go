// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// The README names the oldest of these releases as the oldest API server that an installation works on.
func TestAnInstallationWorksOnOldReleases(t *testing.T) {
	for _, release := range []testbed.Release{testbed.V130, testbed.V133} {
		t.Run(string(release), func(t *testing.T) { installedOn(t, release) })
	}
}

func installedOn(t *testing.T, release testbed.Release) {
	cluster := testbed.New(t, testbed.Options{Release: release})
	installStale(t, cluster, testbed.Bulk{Count: 200}, testbed.Widgets{})
	tool := newCLI(t, cluster)

	// Everything is accepted, and an old API server drops no field of it: applying it again changes nothing.
	first, again := tool.run(0, "install", "--wait=false", "--guard=false"),
		tool.run(0, "install", "--wait=false")
	if want := strings.ReplaceAll(first.stdout, "created   ", "unchanged "); strings.Contains(first.stdout,
		"unchanged") || again.stdout != want {
		t.Errorf("install again (-want +got):\n%s", cmp.Diff(want, again.stdout))
	}
	refused(
		t,
		cluster,
		"/apis/migration.k8s.io/v1alpha1/storagestates",
		`{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageState","metadata":{"name":"other"},"spec":{"resource":{"resource":"secrets"}}}`,
		"name",
	)

	controllerAsWorker(t, cluster)

	// The controller's role lets it read when the API server started, which its Lease does not show.
	c := &controlled{T: t, cluster: cluster, kubeconfig: asServiceAccount(t, cluster, "kube-migrator-controller")}
	p := c.triggering()
	c.untilState(widgetsName, "proven", persistedOnly("v2"))
	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: 200})
	if got := c.state("secrets").Status.Evidence; got != "Observed" {
		t.Errorf("the evidence is %s", got)
	}
	if diff := cmp.Diff([]string{"v2"}, storedVersions(t, cluster)); diff != "" {
		t.Errorf("storedVersions (-want +got):\n%s", diff)
	}
	c.change(widgetsName, `{"spec":{"generation":2}}`)
	refused(t, cluster, migrations+"/"+widgetsName, `{"spec":{"generation":1}}`, "generation")

	eventually(t, "everything is recorded as current", func() bool {
		_, wait := tool.start("progress")
		return wait().code == 0
	})
	tool.run(0, "check")
	tool.run(0, "check", "--target-version", string(release))
	tool.run(0, "check", "--target-version", nextRelease(t, release))
	wantCurrentStates(t, cluster)
	c.end(p)

	// Nothing but the namespace is left, which kube-controller-manager has to empty; there is none here.
	tool.run(0, "uninstall")
	if out := tool.run(1, "uninstall", "--purge", "--timeout=30s"); !strings.Contains(out.stderr,
		"everything of the kind Namespace is deleted") {
		t.Errorf("uninstall --purge:\n%s", out.stderr)
	}
	status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", nil)
	if err != nil || status != http.StatusOK || strings.Contains(string(answer), "migration.k8s.io/v1alpha1") {
		t.Errorf("the CustomResourceDefinitions after uninstall: %d, %v", status, err)
	}
}

// controllerAsWorker lets the controller migrate in its own process, with the permissions of the worker: there is no
// node for Jobs.
func controllerAsWorker(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	do(t, cluster, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": "controller-as-worker"},
		"roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
			"name": "kube-migrator-worker"},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": installation,
			"name": "kube-migrator-controller"}},
	})
}

// With the guard, install alone leads to an exit code of 0 of progress. On the newest release, the tests of the node
// show that with a controller in a pod.
func TestInstallLeavesNothingToAdministratorsOnTheOldestRelease(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{Release: testbed.V130})
	installStale(t, cluster, testbed.Bulk{Count: 200}, testbed.Widgets{})
	tool := newCLI(t, cluster)
	tool.run(0, "install", "--wait=false")
	controllerAsWorker(t, cluster)
	c := &controlled{T: t, cluster: cluster, kubeconfig: asServiceAccount(t, cluster, "kube-migrator-controller")}
	// The guard keeps the controller, but not the worker, from patching roles.
	p := c.triggering("--exclude=*.rbac.authorization.k8s.io")
	const policies = "validatingadmissionpolicies.admissionregistration.k8s.io"
	c.untilState(policies, "left to an administrator", func(s *v1alpha1.StorageState) bool {
		return slices.ContainsFunc(s.Status.Conditions, func(c v1alpha1.Condition) bool {
			return c.Reason == v1alpha1.ReasonByHand
		})
	})

	// There is no kube-controller-manager that would say this.
	const deployment = "/apis/apps/v1/namespaces/" + installation + "/deployments/kube-migrator-controller/status"
	status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPatch, deployment, []byte(
		`{"status":{"observedGeneration":1000,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2}}`))
	if err != nil || status != http.StatusOK {
		t.Fatalf("patch %s: %d %s (%v)", deployment, status, answer, err)
	}
	out := tool.run(0, "install", "--settle-time=1s")
	if !strings.Contains(out.stderr, "All admission policies are stored in the current version.") {
		t.Errorf("install says:\n%s", out.stderr)
	}
	eventually(t, "everything is recorded as current", func() bool {
		_, wait := tool.start("progress")
		return wait().code == 0
	})
	tool.run(0, "check")
	wantCurrentStates(t, cluster)

	// What is proven is not proven again.
	if out := tool.run(0, "install", "--settle-time=1s"); strings.Contains(out.stderr, "agree") {
		t.Errorf("install again says:\n%s", out.stderr)
	}
	c.end(p)
}

// refused expects that an API server refuses a write, because of a rule about a field: its CEL works.
func refused(t *testing.T, cluster *testbed.Cluster, path, body, field string) {
	t.Helper()
	method := http.MethodPost
	if !strings.Contains(body, "apiVersion") {
		method = http.MethodPatch
	}
	status, answer, err := cluster.Servers[0].Do(t.Context(), method, path, []byte(body))
	if err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(string(answer), field) {
		t.Errorf("%s %s: %d %s (%v), want 422 and %q", method, path, status, answer, err, field)
	}
}

// nextRelease is the known release after this one.
func nextRelease(t *testing.T, release testbed.Release) string {
	t.Helper()
	known := upgrade.Known()
	i := slices.IndexFunc(known, func(minor string) bool { return strings.HasPrefix(string(release), "v"+minor+".") })
	if i < 0 || i+1 == len(known) {
		t.Fatalf("no release is known after %s", release)
	}
	return known[i+1]
}

// wantCurrentStates expects that built-in resources too are recorded as stored in the version that the API server
// writes, and in no other.
func wantCurrentStates(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	var list v1alpha1.StorageStateList
	if err := json.Unmarshal(do(t, cluster, http.MethodGet, states, nil), &list); err != nil {
		t.Fatal(err)
	}
	const least = 40 // of the resources that a release has built in
	if len(list.Items) < least {
		t.Errorf("%d StorageStates, want %d or more", len(list.Items), least)
	}
	for _, s := range list.Items {
		if want := []string{s.Status.CurrentStorageVersionHash}; !s.Status.Excluded &&
			!slices.Equal(s.Status.PersistedStorageVersionHashes, want) {
			t.Errorf("%s is recorded as stored in %v, want %v", s.Name, s.Status.PersistedStorageVersionHashes, want)
		}
	}
}
