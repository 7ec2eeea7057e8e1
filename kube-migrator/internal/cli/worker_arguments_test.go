// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A flag that the worker has and the list lacks could not be given: the guard would refuse the Job.
func TestTheWorkerHasExactlyTheFlagsThatTheControllerSetsAndTheGuardAdmits(t *testing.T) {
	command := newWorkerCommand(&environment{name: "kube-migrator"})
	var has []string
	command.LocalFlags().VisitAll(func(f *pflag.Flag) { has = append(has, f.Name) })
	want := slices.Sorted(slices.Values(worker.FlagNames()))
	if diff := cmp.Diff(want, has); diff != "" {
		t.Errorf("flags (-listed +of the command):\n%s", diff)
	}
	line := worker.Arguments{Namespace: "ours", Roster: "job-roster", MinEvidence: migrate.Sampled,
		SettleTime: time.Minute, ShutdownDelay: time.Second}.CommandLine()
	if line[0] != command.Name() {
		t.Errorf("the container runs the command %s, not %s", line[0], command.Name())
	}
	if err := command.ParseFlags(line[1:]); err != nil {
		t.Fatal(err)
	}
	for flag, value := range map[string]string{"namespace": "ours", "roster": "job-roster", "min-evidence": "sampled",
		"settle-time": "1m0s", "shutdown-delay": "1s"} {
		if f := command.Flags().Lookup(flag); f == nil || f.Value.String() != value {
			t.Errorf("--%s is %v, want %s", flag, f, value)
		}
	}
}
