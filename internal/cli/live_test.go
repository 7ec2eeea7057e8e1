// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestALogSaysWhatHasChangedAndExplainsTheWaitOnce(t *testing.T) {
	var out strings.Builder
	l := &live{w: &out, settle: 2 * time.Minute}
	waits := migrate.Progress{Phase: migrate.Waiting, Waiting: "until 12:02:00: requests that began before the API servers agreed may still write"}
	for range 24 { // two minutes of looks
		l.log("widgets", waits, 0)
	}
	for range 3 {
		l.log("widgets", migrate.Progress{Phase: migrate.Rewriting, Total: 10, Counts: migrate.Counts{Rewritten: 5}}, 0)
	}
	l.log("gadgets", waits, 0)
	want := `widgets  waiting until 12:02:00: requests that began before the API servers agreed may still write
Nothing is written until the API servers have agreed on one version for 2m0s (--settle-time): before that, a request that
began earlier may still write another version. It may be shorter only where no request to the API servers lasts that long.
widgets   50%  5/10  0 in flight
gadgets  waiting until 12:02:00: requests that began before the API servers agreed may still write
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestALogOfProgressSaysWhatIsWaitedForAndLeavesOutWhatNoOneNamed(t *testing.T) {
	var out strings.Builder
	s := &screen{env: &environment{Streams: Streams{Out: &out}}}
	p := render.Progress{Resources: []render.ProgressResource{
		{Resource: "pods", Unlisted: true},
		{Resource: "widgets", Migration: "widgets", Status: "Waiting", Unfinished: true, Summary: "Waiting for the API servers: until 12:02:00: …"},
	}}
	for range 3 {
		if err := s.show(p); err != nil {
			t.Fatal(err)
		}
	}
	if want := "widgets  Waiting for the API servers: until 12:02:00: …\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestWaitSaysOnceWhatAMigrationWaitsFor(t *testing.T) {
	var said strings.Builder
	env := &environment{name: "kube-migrator", Streams: Streams{Err: &said}}
	m := migrationOf("pods", v1alpha1.PhaseWaiting, "", func(m *v1alpha1.StorageVersionMigration) {
		m.UID, m.Status.Summary = "u", "Waiting for the API servers: until 12:02:00: …"
	})
	waiting := []awaited{{name: "pods", uid: "u", generation: 1}}
	for range 3 {
		if finished, err := env.check(waiting, []v1alpha1.StorageVersionMigration{m}, render.Text); finished || err != nil {
			t.Fatalf("finished %t, %v", finished, err)
		}
	}
	if want := "pods: Waiting for the API servers: until 12:02:00: …\n"; said.String() != want {
		t.Errorf("said %q, want %q", said.String(), want)
	}
}
