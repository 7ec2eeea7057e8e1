// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// The ServiceAccount gives no pod a token by itself.
func TestAWorkersPodAsksForItsTokenAndForNoServices(t *testing.T) {
	pod := (&jobs{image: "kube-migrator:v1", serviceAccount: "worker"}).job("run-1").Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Error("the worker has no token")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("Services of the namespace become variables of the worker")
	}
}

// The guard refuses a Job with any other argument.
func TestAJobHasTheArgumentsThatTheGuardAdmitsAndNoOthers(t *testing.T) {
	args := (&jobs{}).job("run-1").Spec.Template.Spec.Containers[0].Args
	var flags []string
	for _, argument := range args[1:] {
		name, _, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		flags = append(flags, name)
	}
	if args[0] != worker.Command || !slices.Equal(flags, worker.FlagNames()) {
		t.Errorf("the arguments are %q; the guard admits %s with the flags %q", args, worker.Command, worker.FlagNames())
	}
}
