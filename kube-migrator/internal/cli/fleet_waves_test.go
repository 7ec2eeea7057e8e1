// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/clusters"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
)

func TestTheFirstWaveWithAFailureIsTheLast(t *testing.T) {
	t.Parallel()
	var notes strings.Builder
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &notes}, name: "kube-migrator"}
	var asked []string
	waves := [][]*clusters.Cluster{{{Name: "canary"}}, {{Name: "prod-1"}, {Name: "prod-2"}}, {{Name: "prod-3"}}}
	q := inquiry{
		environment: env, command: &cobra.Command{Use: "migrate"}, output: render.Text, live: true,
		options: fleet.Options{Parallel: 1},
		ask: func(_ context.Context, env *environment) (*render.FleetAnswer, error) {
			name := env.member.Name
			asked = append(asked, name)
			fmt.Fprintf(env.Err, "half a line of %s,", name)
			fmt.Fprint(env.Err, " and its end\n\nno line feed")
			if name == "prod-1" {
				answer := render.MigrateAnswer(&render.Migrations{Resources: []render.Migration{
					{Resource: "secrets", Outcome: render.Proven},
					{Resource: "widgets", Outcome: render.Incomplete, Error: "2 objects failed", Next: "migrate again"},
				}})
				return &answer, exit.Code(exit.Failures)
			}
			answer := render.MigrateAnswer(&render.Migrations{Resources: []render.Migration{{Outcome: render.Proven}}})
			return &answer, nil
		}}
	rows := q.inWaves(t.Context(), make(chan struct{}), waves)
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
	const lines = "Wave 1 of 3: canary.\ncanary: half a line of canary, and its end\ncanary: no line feed\n" +
		"Wave 2 of 3: prod-1, prod-2.\nprod-1: half a line of prod-1, and its end\nprod-1: no line feed\n" +
		"prod-2: half a line of prod-2, and its end\nprod-2: no line feed\n"
	if diff := cmp.Diff(lines, notes.String()); diff != "" {
		t.Errorf("notes: -want +got:\n%s", diff)
	}
}

func TestAnInterruptStartsNoFurtherWave(t *testing.T) {
	t.Parallel()
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &strings.Builder{}}, name: "kube-migrator"}
	gentle := make(chan struct{})
	q := inquiry{
		environment: env, command: &cobra.Command{Use: "migrate"}, output: render.Text, options: fleet.Options{Parallel: 1},
		ask: func(context.Context, *environment) (*render.FleetAnswer, error) {
			close(gentle) // the requests in flight still finish
			answer := render.MigrateAnswer(&render.Migrations{})
			return &answer, nil
		}}
	rows := q.inWaves(t.Context(), gentle, [][]*clusters.Cluster{{{Name: "a"}}, {{Name: "b"}}})
	if got := rows[0].Verdict + ", " + rows[1].Verdict; got != "NothingToDo, NotStarted" {
		t.Error(got)
	}
	if rows[1].ExitCode != exit.Interrupted {
		t.Errorf("exit code %d, want that of an interrupt", rows[1].ExitCode)
	}
}

// Of 500 clusters in waves of 20, one in the third wave fails.
func TestAMigrationOf500ClustersStartsNoneAfterTheWaveWithAFailure(t *testing.T) {
	t.Parallel()
	var lists [][]*clusters.Cluster
	for _, pattern := range []string{"canary", "prod"} {
		var list []*clusters.Cluster
		for i := range map[string]int{"canary": 10, "prod": 490}[pattern] {
			list = append(list, &clusters.Cluster{Name: fmt.Sprintf("%s-%03d", pattern, i)})
		}
		lists = append(lists, list)
	}
	env := &environment{Streams: Streams{Out: &strings.Builder{}, Err: &strings.Builder{}}, name: "kube-migrator"}
	var asked, most, migrating atomic.Int64
	var rows []render.FleetCluster
	q := inquiry{
		environment: env, command: &cobra.Command{Use: "migrate"}, output: render.Text, live: true,
		options: fleet.Options{Parallel: 20},
		ask: func(_ context.Context, env *environment) (*render.FleetAnswer, error) {
			asked.Add(1)
			most.Store(max(most.Load(), migrating.Add(1)))
			defer migrating.Add(-1)
			time.Sleep(time.Minute)
			fmt.Fprintln(env.Err, "a note")
			if env.member.Name == "prod-033" {
				return nil, errors.New("no answer")
			}
			answer := render.MigrateAnswer(&render.Migrations{Resources: []render.Migration{{Outcome: render.Proven}}})
			return &answer, nil
		}}
	synctest.Test(t, func(t *testing.T) {
		rows = q.inWaves(t.Context(), make(chan struct{}), fleet.Waves(lists, 20))
	})
	if asked.Load() != 50 || most.Load() != 20 {
		t.Errorf("%d clusters were migrated, and %d at the same time, want 50 and 20", asked.Load(), most.Load())
	}
	var out strings.Builder
	env.Out = &out
	err := q.show(render.Fleet{What: "CLUSTER", Column: "OUTCOME", Clusters: rows}, exit.Worse)
	if code := exit.Code(0); !errors.As(err, &code) || int(code) != exit.Error {
		t.Errorf("%v, want exit code 1, that of the cluster that failed", err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	const sentence = "500 clusters: 1 Failed (prod-033), 450 NotStarted (prod-040, prod-041, prod-042, prod-043, prod-044 " +
		"and 445 more), 49 Proven."
	if last := strings.Join(lines[slices.Index(lines, "")+1:], " "); !strings.HasSuffix(last, sentence) {
		t.Errorf("the last lines are %q, want %q", last, sentence)
	}
	for i, want := range map[int]string{1: "canary-000 1 Proven", 11: "prod-000 2 Proven", 44: "prod-033 3 Failed",
		51: "prod-040 4 NotStarted", 500: "prod-489 26 NotStarted"} {
		if got := strings.Join(strings.Fields(lines[i])[:3], " "); got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
}

// A cluster whose identity could not be read before the first wave may turn out to be another one of the fleet (I8).
func TestAClusterThatIsReachedUnderTwoNamesIsMigratedUnderTheFirstOne(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		id := strings.Split(r.Header.Get("Authorization"), " ")[1] // each test user has a cluster of its own
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"uid":"`+id+`"}}`)
	}))
	t.Cleanup(api.Close)
	reached := &reachedClusters{names: map[string]string{}}
	migrate := func(name, id string) error {
		config := &rest.Config{Host: api.URL, BearerToken: id}
		env := &environment{Streams: Streams{Err: io.Discard}, connection: connection{member: &clusters.Cluster{Name: name}}}
		q, err := env.connectTo(config)
		if err != nil {
			t.Fatal(err)
		}
		m := &migration{environment: env, command: &cobra.Command{}, dir: t.TempDir(), reached: reached,
			Client: q, restConfig: config}
		return m.identify(t.Context())
	}
	if err := errors.Join(migrate("prod-1", "a"), migrate("prod-2", "b"), migrate("prod-1", "a")); err != nil {
		t.Error(err)
	}
	if err := migrate("twin", "a"); err == nil || !strings.HasPrefix(err.Error(), "prod-1 and twin reach the same cluster") {
		t.Errorf("the second name of a cluster: %v", err)
	}
}
