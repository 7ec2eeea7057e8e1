// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAnInterruptFinishesWhatIsInFlightAndThePrintedCommandGoesOn(t *testing.T) {
	t.Parallel()
	const n, page = 800, 50
	cluster := staleWidgets(t, n, testbed.Widgets{})
	user, proxy := throughProxy(t, cluster)
	command, wait := user.start("migrate", "widgets", "--settle-time=1s", "--max-rate=100", anyInFlight,
		"--page-size=50", "-o", "json")
	eventually(t, "two pages are rewritten",
		func() bool { return stored(t, cluster, testbed.WidgetsPrefix)[v2] > 2*page })
	interrupt(t, command.Process)

	out := wait()

	if out.code != 130 {
		t.Fatalf("exit code %d, want 130\n%s\n%s", out.code, out.stdout, out.stderr)
	}
	got := report(t, out)
	rewritten := stored(t, cluster, testbed.WidgetsPrefix)[v2]
	if got.Outcome != render.Stopped || got.Result.Complete || got.Result.Proven || rewritten >= n {
		t.Errorf("outcome %s with %d of %d rewritten, complete %v, proven %v: want Stopped in the midst of it",
			got.Outcome, rewritten, n, got.Result.Complete, got.Result.Proven)
	}
	wantClaimed(t, cluster, "v1", "v2")
	for _, r := range patches(proxy) {
		if r.Status != 200 {
			t.Errorf("%s %s: status %d, want what was in flight to be finished", r.Method, r.Path, r.Status)
		}
	}
	if c := checkpoint(t, user); c.Counts.Rewritten < 2*page || c.Continue == "" {
		t.Errorf("the checkpoint is %+v, want two pages done and the place behind them", c)
	}
	if !strings.Contains(got.Next, "migrate "+testbed.WidgetCRD+" --resume") {
		t.Fatalf("the printed command is %q, want one that goes on", got.Next)
	}

	user.shell(0, strings.Replace(got.Next, "--max-rate=100", "--max-rate=0", 1))

	wantStored(t, cluster, testbed.WidgetsPrefix, map[string]int{v2: n})
	wantClaimed(t, cluster, "v2")
	if sent := len(patches(proxy)); sent > n+page {
		t.Errorf("%d patches for %d objects: more than one page of %d was repeated", sent, n, page)
	}
}

func interrupt(t *testing.T, process *os.Process) {
	t.Helper()
	if err := process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
}

// checkpoint reads the one checkpoint that a user's runs have left.
func checkpoint(t *testing.T, user *cli) (c struct {
	Counts   migrate.Counts
	Continue string
}) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(user.state, "kube-migrator", "*", "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("checkpoints %v (%v), want one", files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
