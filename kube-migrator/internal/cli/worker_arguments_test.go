// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"reflect"
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
	if diff := cmp.Diff(slices.Sorted(slices.Values(worker.FlagNames())), has); diff != "" {
		t.Errorf("flags (-listed +of the command):\n%s", diff)
	}
	settings := worker.Settings{MinEvidence: migrate.Sampled, SettleTime: time.Minute, ShutdownDelay: time.Second}
	for field, value := range reflect.ValueOf(settings).Fields() {
		if value.IsZero() {
			t.Fatalf("this test has to set %s", field.Name)
		}
	}
	line := worker.Arguments{Namespace: "ours", Roster: "job-roster", Settings: settings}.CommandLine()
	if line[0] != command.Name() {
		t.Errorf("the container runs the command %s, not %s", line[0], command.Name())
	}
	var given workerCommand
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	given.add(flags)
	if err := flags.Parse(line[1:]); err != nil {
		t.Fatal(err)
	}
	want := worker.ServeOptions{Namespace: "ours", Roster: "job-roster", Settings: settings}
	if diff := cmp.Diff(want, given.options); diff != "" {
		t.Errorf("what the worker was given (-want +got):\n%s", diff)
	}
}
