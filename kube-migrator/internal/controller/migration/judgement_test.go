// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const judgedPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"

// courtroom has migrations on a real API server, the statuses that the controller would write, and two that judge by
// them.
type courtroom struct {
	*testbed.Cluster
	kubectl, kubeconfig string
}

func newCourtroom(t *testing.T) *courtroom {
	t.Helper()
	j := &courtroom{Cluster: testbed.New(t, testbed.Options{})}
	if err := j.InstallCRDs(t.Context(), config.CRDs); err != nil {
		t.Fatal(err)
	}
	var err error
	if j.kubeconfig, err = j.Kubeconfig(); err != nil {
		t.Fatal(err)
	}
	if j.kubectl, err = testbed.Binary(t.Context(), testbed.Newest, "kubectl", os.Stderr); err != nil {
		t.Fatal(err)
	}
	return j
}

// send sends a request; the answer is a migration.
func (j *courtroom) send(t *testing.T, method, path, body string) *v1alpha1.StorageVersionMigration {
	t.Helper()
	status, answer, err := j.Servers[0].Do(t.Context(), method, judgedPath+path, []byte(body))
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d, %v: %s", method, path, status, err, answer)
	}
	m := &v1alpha1.StorageVersionMigration{}
	if err := json.Unmarshal(answer, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// be writes the status that the controller writes for a phase.
func (j *courtroom) be(t *testing.T, name string, phase v1alpha1.Phase, reason string) {
	t.Helper()
	m := j.send(t, http.MethodGet, "/"+name, "")
	d := decision{step: stepFollow, run: newRun(m, m.Spec.Generation, 1), phase: phase,
		reason: reason, message: "So it is"}
	m.Status = statusAfter(m, d, time.Now(), time.Minute)
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	j.send(t, http.MethodPut, "/"+name+"/status", string(raw))
}

func (j *courtroom) kstatus(t *testing.T, name string) kstatus.Status {
	t.Helper()
	status, answer, err := j.Servers[0].Do(t.Context(), http.MethodGet, judgedPath+"/"+name, nil)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v", status, err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(answer); err != nil {
		t.Fatal(err)
	}
	result, err := kstatus.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// waitFor runs `kubectl wait`; it reports whether the condition was met in time.
func (j *courtroom) waitFor(t *testing.T, name, condition string, timeout time.Duration) (met bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := j.Command(ctx, j.kubectl, "--kubeconfig", j.kubeconfig, "wait", "svmig/"+name,
		"--for=condition="+condition, fmt.Sprintf("--timeout=%s", timeout)).CombinedOutput()
	switch {
	case err == nil && strings.Contains(string(out), "condition met"):
		return true
	case err != nil && strings.Contains(string(out), "timed out waiting for the condition"):
		return false
	}
	t.Fatalf("kubectl wait: %v: %s", err, out)
	return false
}

func TestKstatusAndKubectlWaitJudgeAMigration(t *testing.T) {
	j := newCourtroom(t)
	const enough, moment = 30 * time.Second, time.Second
	create := func(t *testing.T, name string) {
		j.send(t, http.MethodPost, "", `{"apiVersion":"migration.k8s.io/v1alpha1","kind":"StorageVersionMigration","metadata":{"name":"`+name+`"},
			"spec":{"resource":{"group":"demo.example.com","resource":"widgets"}}}`)
	}
	expect := func(t *testing.T, name string, want kstatus.Status) {
		t.Helper()
		if got := j.kstatus(t, name); got != want {
			t.Errorf("kstatus says %s, want %s", got, want)
		}
	}

	t.Run("each phase of a first run", func(t *testing.T) {
		create(t, "first")
		expect(t, "first", kstatus.InProgressStatus)
		for _, one := range []struct {
			phase v1alpha1.Phase
			want  kstatus.Status
		}{
			{v1alpha1.PhasePending, kstatus.InProgressStatus},
			{v1alpha1.PhaseWaiting, kstatus.InProgressStatus},
			{v1alpha1.PhaseRunning, kstatus.InProgressStatus},
			{v1alpha1.PhasePaused, kstatus.InProgressStatus},
			{v1alpha1.PhaseFailed, kstatus.FailedStatus},
			{v1alpha1.PhaseRunning, kstatus.InProgressStatus},
			{v1alpha1.PhaseSucceeded, kstatus.CurrentStatus},
		} {
			j.be(t, "first", one.phase, "Because")
			t.Run(string(one.phase), func(t *testing.T) { expect(t, "first", one.want) })
		}
	})
	t.Run("success of a first run is seen at once, and no failure", func(t *testing.T) {
		if !j.waitFor(t, "first", "Succeeded", enough) || j.waitFor(t, "first", "Failed", moment) {
			t.Error("want Succeeded and not Failed")
		}
	})
	t.Run("a raised generation voids the success before anyone has looked at it", func(t *testing.T) {
		j.send(t, http.MethodPatch, "/first", `{"spec":{"generation":2}}`)
		if j.waitFor(t, "first", "Succeeded", moment) {
			t.Error("the success of generation 1 counts for generation 2")
		}
		expect(t, "first", kstatus.InProgressStatus)
	})
	t.Run("the numbers of spec and metadata part", func(t *testing.T) {
		j.send(t, http.MethodPatch, "/first", `{"spec":{"state":"Paused"}}`)
		j.send(t, http.MethodPatch, "/first", `{"spec":{"state":"Active"}}`)
		j.be(t, "first", v1alpha1.PhaseRunning, v1alpha1.ReasonRewriting)
		expect(t, "first", kstatus.InProgressStatus)
		j.be(t, "first", v1alpha1.PhaseFailed, "ObjectsFailed")
		expect(t, "first", kstatus.FailedStatus)
		if !j.waitFor(t, "first", "Failed", enough) || j.waitFor(t, "first", "Succeeded", moment) {
			t.Error("want Failed and not Succeeded")
		}
		j.be(t, "first", v1alpha1.PhaseSucceeded, v1alpha1.ReasonProven)
		expect(t, "first", kstatus.CurrentStatus)
		if !j.waitFor(t, "first", "Succeeded", enough) {
			t.Error("want Succeeded")
		}
		j.send(t, http.MethodPatch, "/first", `{"spec":{"generation":3}}`)
		if j.waitFor(t, "first", "Succeeded", moment) {
			t.Error("the success of generation 2 counts for generation 3")
		}
	})
}
