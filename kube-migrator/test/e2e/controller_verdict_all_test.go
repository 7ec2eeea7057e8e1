// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const checkpoints = "/api/v1/namespaces/" + installation + "/configmaps/"

// A run proves something about its own epoch only: the controller compares before it concludes (I2). No kubelet is
// here, so that the test is the worker.
func TestARunOfAnotherEpochProvesNothing(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 3, testbed.Widgets{}))
	c.controller("--workers=jobs", "--worker-image=example.com/none", "--worker-service-account=default")
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	m, err := c.read(widgetsName)
	if err != nil {
		t.Fatal(err)
	}
	run := func(attempt int) string { return fmt.Sprintf("migrate-%.8s-1-%d", m.UID, attempt) }
	present := c.presentEpoch()

	foreign := present
	foreign.Servers = []string{"a-process-that-ended"}
	c.prove(run(1), 1, foreign)
	eventually(t, "a second attempt", func() bool {
		status, _, err := c.cluster.Servers[0].Do(t.Context(), http.MethodGet, checkpoints+run(2), nil)
		return err == nil && status == http.StatusOK
	})
	if m, err = c.read(widgetsName); err != nil || m.Status.CompletedGeneration != 0 ||
		m.Status.State == v1alpha1.PhaseSucceeded {
		t.Errorf("the status is %+v, %v", m.Status, err)
	}
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v1", "v2"}) {
		t.Errorf("storedVersions = %v", claimed)
	}

	for i := range 3 { // what the worker would have done
		do(t, c.cluster, http.MethodPatch, fmt.Sprintf("/apis/%s/v2/namespaces/default/widgets/widget-%07d",
			testbed.WidgetGroup, i), map[string]any{})
	}
	c.prove(run(2), 2, present)
	c.until(widgetsName, "succeeded", inPhase(v1alpha1.PhaseSucceeded))
	if claimed := storedVersions(t, c.cluster); !slices.Equal(claimed, []string{"v2"}) {
		t.Errorf("storedVersions = %v", claimed)
	}
}

// A worker that has ended gives its turn away. What comes after it, because it proves nothing, waits until the turn is
// free again (I8).
func TestTheAttemptAfterARunOfAnotherEpochWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 3, testbed.Widgets{}))
	c.controller("--workers=jobs", "--worker-image=example.com/none", "--worker-service-account=default",
		"--max-concurrent-migrations=1")
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	m, err := c.read(widgetsName)
	if err != nil {
		t.Fatal(err)
	}
	run := func(attempt int) string { return fmt.Sprintf("migrate-%.8s-1-%d", m.UID, attempt) }
	eventually(t, "the first attempt", func() bool { return slices.Contains(c.checkpoints(), run(1)) })
	c.ask(v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Resource: "configmaps"}})
	c.until("configmaps", "waiting for its turn", inPhase(v1alpha1.PhasePending))

	foreign := c.presentEpoch()
	foreign.Servers = []string{"a-process-that-ended"}
	c.prove(run(1), 1, foreign)
	eventually(t, "the other migration has the turn", func() bool { return len(c.checkpoints()) == 2 })
	m = c.until(widgetsName, "waiting for its turn", func(m *v1alpha1.StorageVersionMigration) bool {
		return m.Status.State == v1alpha1.PhasePending && strings.Contains(m.Status.Summary, "Waiting for its turn")
	})
	if slices.Contains(c.checkpoints(), run(2)) {
		t.Errorf("two runs are at work: %v", c.checkpoints())
	}
	do(t, c.cluster, http.MethodDelete, migrations+"/configmaps", nil)
	eventually(t, "a second attempt", func() bool { return slices.Contains(c.checkpoints(), run(2)) })
}

// An image that cannot be pulled keeps the turn, and is told. Once workers have another one, it continues the run from
// its checkpoint.
func TestAWorkerThatNeverCameIsReplacedOnceItsImageIsChanged(t *testing.T) {
	t.Parallel()
	c := newControlled(t, staleWidgets(t, 3, testbed.Widgets{}))
	started := func(image string) *process {
		return c.controller("--workers=jobs", "--worker-image="+image,
			"--worker-service-account=default", "--retry-after=1h")
	}
	first := started("example.com/wrong")
	c.ask(v1alpha1.StorageVersionMigrationSpec{})
	m := c.until(widgetsName, "told", func(m *v1alpha1.StorageVersionMigration) bool {
		return strings.Contains(m.Status.Summary, "The worker has not reported for 30s") &&
			strings.Contains(m.Status.Summary, "has no pod")
	})
	run := fmt.Sprintf("migrate-%.8s-1-1", m.UID)
	do(t, c.cluster, http.MethodPatch, checkpoints+run,
		map[string]any{"binaryData": map[string]any{"checkpoint": "eHg="}})
	c.end(first)

	started("example.com/right")
	eventually(t, "a worker with the right image has the run", func() bool {
		var jobs batchv1.JobList
		get(t, c.cluster, "/apis/batch/v1/namespaces/"+installation+"/jobs", &jobs)
		for _, job := range jobs.Items {
			if job.Annotations["migration.k8s.io/worker"] != "example.com/right default" {
				continue
			}
			var roster struct{ Data map[string]string }
			status, answer, err := c.cluster.Servers[0].Do(t.Context(), http.MethodGet, checkpoints+job.Name+"-roster", nil)
			return err == nil && status == http.StatusOK && json.Unmarshal(answer, &roster) == nil &&
				strings.Contains(roster.Data["tasks"], `"configMap":"`+run+`"`)
		}
		return false
	})
	var kept struct {
		BinaryData map[string]string `json:"binaryData"`
	}
	if get(t, c.cluster, checkpoints+run, &kept); kept.BinaryData["checkpoint"] == "" {
		t.Error("the run starts over")
	}
}

// presentEpoch is the epoch that the widgets are in.
func (c *controlled) presentEpoch() migrate.Epoch {
	c.Helper()
	config := c.cluster.Servers[0].Config()
	client, err := apiserver.NewClient(config)
	if err != nil {
		c.Fatal(err)
	}
	all, err := inventory.Take(c.Context(), client)
	if err != nil {
		c.Fatal(err)
	}
	widgets, err := all.Find(widgetsName)
	if err != nil {
		c.Fatal(err)
	}
	servers, err := agreement.New(config, widgets.Target(), agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		c.Fatal(err)
	}
	epoch, err := servers.Epoch(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	return epoch
}

// prove writes what a worker would that has accounted for everything in the given epoch.
func (c *controlled) prove(name string, attempt int64, epoch migrate.Epoch) {
	c.Helper()
	now := time.Now()
	report, err := json.Marshal(worker.Report{
		Generation: 1, Attempt: attempt, Phase: migrate.Done, Total: 3, Listed: true,
		Counts:         migrate.Counts{Rewritten: 3},
		StorageVersion: "v2", Epoch: epoch, Baseline: 1, Started: now, Updated: now,
		Outcome: &worker.Outcome{Result: worker.ResultProven, Ended: now},
	})
	if err != nil {
		c.Fatal(err)
	}
	patch := mustJSON(map[string]any{"data": map[string]string{"report": string(report)}})
	eventually(c.T, "the checkpoint of "+name, func() bool {
		status, _, err := c.cluster.Servers[0].Do(c.Context(), http.MethodPatch, checkpoints+name, patch)
		return err == nil && status == http.StatusOK
	})
}
