// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// A resource that comes after an installation whose roles name resources: nothing is asked for that would be Forbidden,
// it is told in three places, and the command that they name fixes it.
func TestAForbiddenMigrationIsReportedAndRetriedOnceAllowed(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	c := newControlled(t, cluster)
	administrator := newCLI(t, cluster)
	administrator.run(0, "install", "--wait=false", "--adopt", "--trust-namespace",
		"--image=kube-migrator:test", "--exclude=secrets")
	metrics := freeAddress(t)
	c.triggering("--workers=jobs", "--worker-image=kube-migrator:test", "--exclude=secrets",
		"--metrics-bind-address="+metrics)
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}

	// Once the API servers agree, a migration would be asked for.
	s := c.untilState(widgetsName, "forbidden", func(s *v1alpha1.StorageState) bool {
		return holds(s, v1alpha1.ConditionPermitted) == metav1.ConditionFalse &&
			holds(s, v1alpha1.ConditionAllEncodingVersionsEqual) == metav1.ConditionTrue
	})
	const want = "forbidden: the worker cannot get widgets.demo.example.com, so that no migration is requested. Try: " +
		"kube-migrator install"
	for _, condition := range s.Status.Conditions {
		if condition.Type == v1alpha1.ConditionPermitted &&
			(condition.Reason != v1alpha1.ReasonForbidden || condition.Message != want) {
			t.Errorf("the condition is %+v, want the message %q", condition, want)
		}
	}
	eventually(t, "an Event tells", func() bool {
		raw := string(do(t, cluster, http.MethodGet, "/apis/events.k8s.io/v1/events", nil))
		return strings.Contains(raw, want) && strings.Contains(raw, `"kind":"StorageState"`)
	})
	eventually(t, "a metric tells", func() bool {
		_, body := fetch(t, "https://"+metrics+"/metrics", cluster.Servers[0].Config().BearerToken)
		return strings.Contains(body, `kube_migrator_forbidden{resource="`+widgetsName+`"} 1`)
	})
	eventually(t, "metrics tell of StorageStates and looks", func() bool {
		_, body := fetch(t, "https://"+metrics+"/metrics", cluster.Servers[0].Config().BearerToken)
		return !slices.ContainsFunc([]string{
			`kube_migrator_abnormal_resource{reason="unknown",resource="` + widgetsName + `"} 1`,
			`kube_migrator_abnormal_storage_states{reason="forbidden"} 1`,
			`kube_migrator_storage_states{excluded="true"} 1`,
			`kube_migrator_abnormal_storage_states{reason="disagreement"} 0`,
			"kube_migrator_oldest_heartbeat_timestamp_seconds 1.",
			"kube_migrator_last_complete_look_timestamp_seconds 1.", `kube_migrator_looks_total{result="complete"} `,
			"kube_migrator_look_duration_seconds_count ",
		}, func(line string) bool { return !strings.Contains(body, line) })
	})
	for name, want := range map[string]v1alpha1.StoragePhase{widgetsName: v1alpha1.StoragePhaseForbidden,
		"secrets": v1alpha1.StoragePhaseExcluded, "configmaps": v1alpha1.StoragePhaseUnknown} {
		if s := c.state(name); s == nil || s.Status.State != want {
			t.Errorf("%s is %+v, want %s", name, s, want)
		}
	}
	wantNarrow(t, cluster)
	if s := c.state("configmaps"); s == nil || holds(s, v1alpha1.ConditionPermitted) != "" {
		t.Errorf("a resource that the roles name has %+v", s)
	}
	if s := c.state("secrets"); s == nil || holds(s, v1alpha1.ConditionPermitted) != "" {
		t.Errorf("a resource that is excluded on purpose has %+v", s)
	}

	administrator.run(0, "install", "--wait=false")
	moveStorage(t, cluster, "v2") // or wait for a minute
	s = c.untilState(widgetsName, "permitted",
		func(s *v1alpha1.StorageState) bool {
			return holds(s, v1alpha1.ConditionPermitted) == metav1.ConditionTrue
		})
	m := c.until(widgetsName, "asked for", func(
		m *v1alpha1.StorageVersionMigration,
	) bool {
		return m.Spec.Generation > 0
	})
	for _, condition := range s.Status.Conditions {
		if condition.Type == v1alpha1.ConditionPermitted && m.CreationTimestamp.Before(&condition.LastTransitionTime) {
			t.Errorf("a migration was asked for at %s, and permitted at %s", m.CreationTimestamp,
				condition.LastTransitionTime)
		}
	}
	eventually(t, "the metric says that nothing is forbidden", func() bool {
		code, body := fetch(t, "https://"+metrics+"/metrics", cluster.Servers[0].Config().BearerToken)
		return code == http.StatusOK && !strings.Contains(body, "kube_migrator_forbidden{")
	})
}

// wantNarrow expects that kubectl shows every StorageState within 120 columns.
func wantNarrow(t *testing.T, cluster *testbed.Cluster) {
	t.Helper()
	kubectl, err := testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cluster.Command(t.Context(), kubectl, "--kubeconfig", kubeconfig, "get",
		"storagestates").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("kubectl get storagestates:\n%s", out)
	lines := slices.Collect(strings.Lines(string(out)))
	if len(lines) < 50 || !strings.HasPrefix(lines[0], "NAME ") {
		t.Errorf("kubectl shows %s", out)
	}
	for _, line := range lines {
		if len(strings.TrimRight(line, " \n")) > 120 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}
