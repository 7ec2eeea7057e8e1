// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
)

func TestWaitSaysOnceWhatAMigrationWaitsFor(t *testing.T) {
	var said strings.Builder
	env := &environment{name: "kube-migrator", Streams: Streams{Err: &said}}
	c := &waitCommand{environment: env, output: render.Text, waiting: []awaited{{name: "pods", uid: "u", generation: 1}}}
	m := migrationOf("pods", v1alpha1.PhaseWaiting, "", func(m *v1alpha1.StorageVersionMigration) {
		m.UID, m.Status.Summary = "u", "Waiting for the API servers: until 12:02:00: …"
	})
	for range 3 {
		if finished, err := c.check([]v1alpha1.StorageVersionMigration{m}, nil, time.Time{}); finished || err != nil {
			t.Fatalf("finished %t, %v", finished, err)
		}
	}
	if want := "pods: Waiting for the API servers: until 12:02:00: …\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}

// waitsForWidgets is wait for one migration.
func waitsForWidgets(out, said io.Writer) *waitCommand {
	return &waitCommand{environment: &environment{name: "kube-migrator", Streams: Streams{Out: out, Err: said}},
		output: render.Text, waiting: []awaited{{name: "widgets", uid: "u", generation: 1}}}
}

// proving is a migration that has succeeded, and a StorageState of its resource that does not say so: v1 and v2 may be
// stored, v2 is proven.
func proving() (v1alpha1.StorageVersionMigration, *v1alpha1.StorageStateStatus) {
	epoch := &v1alpha1.Epoch{Servers: []string{"p1"}}
	m := migrationOf("widgets", v1alpha1.PhaseSucceeded, "h2", func(m *v1alpha1.StorageVersionMigration) {
		m.UID, m.Spec.Generation, m.Status.CompletedGeneration, m.Status.Epoch = "u", 1, 1, epoch
		m.Status.Run = v1alpha1.Run{Generation: 1, StartResourceVersion: "30"}
	})
	return m, &v1alpha1.StorageStateStatus{
		PersistedStorageVersionHashes: []string{"h1", "h2"}, CurrentStorageVersionHash: "h2",
		RequiredStartResourceVersion: "29", Epoch: epoch,
	}
}

func TestWaitEndsWhenASuccessIsRecorded(t *testing.T) {
	const (
		waits  = "widgets has succeeded: waiting until its StorageState says so\n"
		gaveUp = "widgets has succeeded, and its StorageState does not say so after 30s: perhaps no controller runs\n"
		early  = "widgets has succeeded, and its StorageState stays as it is: the run may have started before " +
			"another version was written\n"
	)
	begin := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		change func(m *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus)
		// ends is how long after the success the wait ends.
		ends time.Duration
		said string
	}{
		"recorded": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.PersistedStorageVersionHashes = []string{"h2"}
		}, 0, ""},
		"never recorded": {func(*v1alpha1.StorageVersionMigration, *v1alpha1.StorageStateStatus) {},
			recordPatience, waits + gaveUp},
		"the epoch is another": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.Epoch = &v1alpha1.Epoch{Servers: []string{"p2"}}
		}, recordPatience, waits + gaveUp},
		"it started too early": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			s.RequiredStartResourceVersion = "30"
		}, 0, early},
		"of another program": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Status.Run = v1alpha1.Run{}
		}, 0, ""},
		"nothing is recorded": {func(_ *v1alpha1.StorageVersionMigration, s *v1alpha1.StorageStateStatus) {
			*s = v1alpha1.StorageStateStatus{}
		}, 0, ""},
		"another group's record": {func(m *v1alpha1.StorageVersionMigration, _ *v1alpha1.StorageStateStatus) {
			m.Spec.Resource.Group, m.Spec.GroupVersions = "other.example.com", []v1alpha1.GroupVersion{{Version: "v1"}}
		}, recordPatience, waits + gaveUp},
	} {
		var out, said strings.Builder
		c := waitsForWidgets(&out, &said)
		m, s := proving()
		test.change(&m, s)
		states := map[schema.GroupResource]*v1alpha1.StorageState{{Resource: "widgets"}: {Status: *s}}
		for waited := time.Duration(0); ; waited += time.Second {
			finished, err := c.check([]v1alpha1.StorageVersionMigration{m}, states, begin.Add(waited))
			if err != nil || finished != (waited >= test.ends) {
				t.Errorf("%s: after %v it has finished: %t (%v), want after %v", name, waited, finished, err, test.ends)
			}
			if finished || waited > time.Minute {
				break
			}
		}
		if said.String() != test.said || out.String() != "widgets succeeded\n" {
			t.Errorf("%s: said %q and %q, want %q", name, out.String(), said.String(), test.said)
		}
	}
}

// A success is a success, also where the time is over before it is recorded, or the migration is deleted meanwhile.
func TestWaitDoesNotFailForWantOfARecord(t *testing.T) {
	m, s := proving()
	states := map[schema.GroupResource]*v1alpha1.StorageState{{Resource: "widgets"}: {Status: *s}}
	for name, end := range map[string]func(*waitCommand) error{
		"deleted": func(c *waitCommand) error {
			finished, err := c.check(nil, nil, time.Now())
			if !finished {
				t.Error("waits for a migration that is gone")
			}
			return err
		},
		"out of time": func(c *waitCommand) error {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now())
			defer cancel()
			c.timeout = 5 * time.Second
			return c.timedOut(ctx, ctx.Err())
		},
	} {
		var out, said strings.Builder
		c := waitsForWidgets(&out, &said)
		if finished, err := c.check([]v1alpha1.StorageVersionMigration{m}, states, time.Now()); finished || err != nil {
			t.Fatalf("%s: finished %t, %v", name, finished, err)
		}
		if err := end(c); err != nil || out.String() != "widgets succeeded\n" {
			t.Errorf("%s: %v, said %q and %q", name, err, out.String(), said.String())
		}
	}
}
