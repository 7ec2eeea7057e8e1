// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/fleet"
)

func TestTheFirstWaveWithAFailureIsTheLast(t *testing.T) {
	t.Parallel()
	var notes strings.Builder
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &notes}, name: "kube-migrator"}
	var asked []string
	waves := [][]*clusters.Cluster{{{Name: "canary"}}, {{Name: "prod-1"}, {Name: "prod-2"}}, {{Name: "prod-3"}}}
	rows := env.inWaves(t.Context(), make(chan struct{}), inquiry{
		command: &cobra.Command{Use: "migrate"}, output: render.Text, live: true, options: fleet.Options{Parallel: 1},
		ask: func(_ context.Context, env *environment) (*render.FleetAnswer, error) {
			name := env.member.Name
			asked = append(asked, name)
			fmt.Fprintf(env.Err, "half a line of %s,", name)
			fmt.Fprint(env.Err, " and its end\n\n")
			if name == "prod-1" {
				answer := render.MigrateAnswer(&render.Migrations{Resources: []render.Migration{
					{Resource: "secrets", Outcome: render.Proven},
					{Resource: "widgets", Outcome: render.Incomplete, Error: "2 objects failed", Next: "migrate again"},
				}})
				return &answer, exit.Code(exit.Failures)
			}
			answer := render.MigrateAnswer(&render.Migrations{Resources: []render.Migration{{Outcome: render.Proven}}})
			return &answer, nil
		}}, waves)
	var got []string
	for _, row := range rows {
		got = append(got, fmt.Sprintf("%d %s %s %d %s %s", row.Wave, row.Name, row.Verdict, row.ExitCode, row.Left,
			row.Reason))
	}
	want := []string{"1 canary Proven 0  ", "2 prod-1 Incomplete 4 1 of 2 resources widgets: 2 objects failed",
		"2 prod-2 Proven 0  ", "3 prod-3 NotStarted 2  "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"canary", "prod-1", "prod-2"}, asked); diff != "" {
		t.Errorf("asked: -want +got:\n%s", diff)
	}
	const lines = "Wave 1 of 3: canary.\ncanary: half a line of canary, and its end\nWave 2 of 3: prod-1, prod-2.\n" +
		"prod-1: half a line of prod-1, and its end\nprod-2: half a line of prod-2, and its end\n"
	if diff := cmp.Diff(lines, notes.String()); diff != "" {
		t.Errorf("notes: -want +got:\n%s", diff)
	}
}

func TestAnInterruptStartsNoFurtherWave(t *testing.T) {
	t.Parallel()
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &strings.Builder{}}, name: "kube-migrator"}
	gentle := make(chan struct{})
	rows := env.inWaves(t.Context(), gentle, inquiry{
		command: &cobra.Command{Use: "migrate"}, output: render.Text, options: fleet.Options{Parallel: 1},
		ask: func(context.Context, *environment) (*render.FleetAnswer, error) {
			close(gentle) // the requests in flight still finish
			answer := render.MigrateAnswer(&render.Migrations{})
			return &answer, nil
		}}, [][]*clusters.Cluster{{{Name: "a"}}, {{Name: "b"}}})
	if got := rows[0].Verdict + ", " + rows[1].Verdict; got != "NothingToDo, NotStarted" {
		t.Error(got)
	}
	if rows[1].ExitCode != exit.Interrupted {
		t.Errorf("exit code %d, want that of an interrupt", rows[1].ExitCode)
	}
}
