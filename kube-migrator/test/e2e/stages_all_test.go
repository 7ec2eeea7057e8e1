// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// stage is one of those that `api-migrator stages -o json` prints.
type stage struct {
	Letter   string   `json:"letter"`
	Commands []string `json:"commands"`
	Gate     string   `json:"gate"`
	Back     string   `json:"back"`
}

// staged is a cluster that follows a plan in stages.
type staged struct {
	*author
	stages []stage
}

// newStaged makes the guide's project with v2, its stages, and a cluster with objects at v1.
func newStaged(t *testing.T, n int) *staged {
	t.Helper()
	user := newAuthor(t, testbed.New(t, testbed.Options{}))
	user.installOld()
	user.fill(n)
	user.shell(0, `cd "$PROJECT" && api-migrator plan --kind CatalogSourceConfig --from operators.example.com/v1 --to operators.example.com/v2 --out "$NEXT/plan.yaml" &&
		api-migrator apply "$NEXT/plan.yaml" && api-migrator stages "$NEXT/plan.yaml" --out stages && api-migrator verify`)
	var plans []struct{ Stages []stage }
	decode(t, []byte(user.shell(0, `cd "$PROJECT" && api-migrator stages "$NEXT/plan.yaml" -o json`).stdout), &plans)
	return &staged{author: user, stages: plans[0].Stages}
}

// in runs a command line in the folder of the stages.
func (s *staged) in(code int, line string) output {
	s.t.Helper()
	return s.shell(code, `cd "$PROJECT/stages/`+configCRD+`" && `+line)
}

// waits are the commands that wait for the settle time.
var waits = regexp.MustCompile(`kube-migrator (migrate|retire)\b`)

func quick(line string) string { return waits.ReplaceAllString(line, "$0 --settle-time=1s") }

// gate runs a stage's gate.
func (s *staged) gate(at stage) (opens bool) {
	s.t.Helper()
	return s.in(0, "if sh "+strings.ToLower(at.Letter)+"-gate.sh"+
		" 2>&1; then echo; echo OPEN; else echo; echo SHUT; fi").lastLine() == "OPEN"
}

func (o output) lastLine() string {
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	return lines[len(lines)-1]
}

// reach carries a stage out, and expects its gate to be shut before and open afterwards.
func (s *staged) reach(at stage) {
	s.t.Helper()
	if s.gate(at) {
		s.t.Errorf("the gate of stage %s is open before it begins: %s", at.Letter, at.Gate)
	}
	for _, line := range at.Commands {
		s.in(0, quick(line))
	}
	eventually(s.t, "the gate of stage "+at.Letter+" opens: "+at.Gate, func() bool { return s.gate(at) })
}

func TestAClusterFollowsInStagesEachBehindAGate(t *testing.T) {
	t.Parallel()
	const n = 10
	user := newStaged(t, n)
	before := user.contents("v1")
	want := []struct {
		letter, stored string
		versions       []string
		back           string // a command that takes the stage back
	}{
		{"A", "v1", []string{"v2 served", "v1 served storage"}, "kube-migrator retire " + configCRD +
			" --version v2 --unserve --remove"},
		{"B", "v1 v2", []string{"v2 served storage", "v1 served"}, "kubectl apply --server-side --force-conflicts -f a-add.yaml"},
		{"C", "v2", []string{"v2 served storage", "v1 served"}, ""},
		{"D", "v2", []string{"v2 served storage", "v1 served"}, ""},
		{"E", "v2", []string{"v2 served storage", "v1"}, "kubectl apply --server-side --force-conflicts -f b-store.yaml"},
		{"F", "v2", []string{"v2 served storage"}, ""},
	}
	for i, stage := range user.stages {
		if stage.Letter != want[i].letter {
			t.Fatalf("stage %d is %s, want %s", i, stage.Letter, want[i].letter)
		}
		user.reach(stage)
		user.wantVersions(want[i].stored, want[i].versions...)
		if want[i].back != "" {
			if !strings.Contains(stage.Back, want[i].back) {
				t.Errorf("stage %s is taken back by %q, want %q in it", stage.Letter, stage.Back, want[i].back)
			}
			user.in(0, quick(want[i].back))
			user.reach(stage) // the gate has shut, and the stage can be reached again
			user.wantVersions(want[i].stored, want[i].versions...)
		}
		if diff := cmp.Diff(before, user.contents("v2")); diff != "" {
			t.Errorf("objects after stage %s (-before +now):\n%s", stage.Letter, diff)
		}
	}
	wantStored(t, user.cluster, configsPrefix, map[string]int{configsV2: n})
	for _, stage := range user.stages {
		lost := exec.CommandContext(t.Context(), "sh", "-c", stage.Gate)
		lost.Env = []string{"PATH=" + user.path(), "KUBECONFIG=/nowhere"}
		if out, err := lost.CombinedOutput(); err == nil {
			t.Errorf("the gate of stage %s opens without a cluster: %s\n%s", stage.Letter, stage.Gate, out)
		}
	}
}
