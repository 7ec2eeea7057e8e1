// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

func newProcess(t *testing.T) *Process {
	t.Helper()
	p, err := NewProcess(&rest.Config{Host: "https://127.0.0.1:1"}, "default", Settings{})
	must(t, err)
	return p
}

// A rate holds for all runs together. A run for which a user asks for another rate does not slow the others down.
func TestRunsAtOnePaceKeepItsBoundsTogether(t *testing.T) {
	shared := newProcess(t)
	at := func(perSecond int32) any {
		r := &run{Options: Options{Process: shared, Attempt: 1}, waits: defaultTiming}
		return r.options(assignment{pace: v1alpha1.Pace{MaxObjectsPerSecond: perSecond}}).Bounds
	}
	if at(10) != at(10) {
		t.Error("two runs at one pace have bounds of their own")
	}
	if at(10) == at(20) {
		t.Error("two runs at different paces share their bounds")
	}
}
