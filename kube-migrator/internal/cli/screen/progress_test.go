// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAFoldedLineTakesMoreRowsOfATerminal(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{{"", 0}, {"one\n", 1}, {"1234567890\n", 1}, {"12345678901\n", 2}, {"ÄÖÜäöüßÄÖÜ\n\ntwo\n", 3}} {
		if got := rowsOf([]byte(test.text), 10); got != test.want {
			t.Errorf("%q takes %d rows, want %d", test.text, got, test.want)
		}
	}
}

func TestWhatIsPaintedOverFitsOnTheTerminal(t *testing.T) {
	const text = "head\n1\n2\n3\n4\n5\nthe end\n"
	for height, want := range map[int]string{
		0: text, 20: text, 8: text, 7: "head\n1\n2\n3\n…\nthe end\n", 5: "head\n1\n…\nthe end\n",
	} {
		got := string(clip([]byte(text), 10, height))
		if got != want {
			t.Errorf("on %d rows: %q, want %q", height, got, want)
		}
		if height > 0 && rowsOf([]byte(got), 10) >= height {
			t.Errorf("on %d rows: %d are too many", height, rowsOf([]byte(got), 10))
		}
	}
	p := workFirst(render.Progress{Resources: []render.ProgressResource{
		{Resource: "done"}, {Resource: "waits", Unfinished: true, Status: "Pending"},
		{Resource: "failed", Run: upgrade.HasFailed}, {Resource: "runs", Unfinished: true, Status: "Running"},
	}})
	for i, want := range []string{"runs", "failed", "waits", "done"} {
		if got := p.Resources[i].Resource; got != want {
			t.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
}

func TestALogSaysWhatHasChangedAndExplainsTheWaitOnce(t *testing.T) {
	var out strings.Builder
	l := &Sweeps{Out: &out, SettleTime: 2 * time.Minute}
	waits := migrate.Progress{Phase: migrate.Waiting,
		Waiting: "until 12:02:00: requests that began before the API servers agreed may still write"}
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
	s := &Progress{Out: &out}
	p := render.Progress{Resources: []render.ProgressResource{
		{Resource: "pods", Unlisted: true},
		{Resource: "widgets", Migration: "widgets", Status: "Waiting", Unfinished: true,
			Summary: "Waiting for the API servers: until 12:02:00: …"},
	}}
	for range 3 {
		if err := s.Show(p); err != nil {
			t.Fatal(err)
		}
	}
	if want := "widgets  Waiting for the API servers: until 12:02:00: …\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestOfSweepsAtTheSameTimeOneIsShownUntilItHasEnded(t *testing.T) {
	var out strings.Builder
	l := &Sweeps{Out: &out}
	first, second := new(migrate.Sweep), new(migrate.Sweep)
	rewriting := func(n int64) migrate.Progress {
		return migrate.Progress{Phase: migrate.Rewriting, Total: 9, Counts: migrate.Counts{Rewritten: n}}
	}
	l.show("one", first, rewriting(1), 0)
	l.show("two", second, rewriting(2), 0)
	l.end(second)
	l.show("one", first, rewriting(3), 0)
	l.Say("two is proven")
	l.show("two", second, rewriting(4), 0)
	l.end(first)
	l.show("two", second, rewriting(5), 0)
	var names []string
	for line := range strings.Lines(out.String()) {
		names = append(names, strings.Fields(line)[0])
	}
	if diff := cmp.Diff([]string{"one", "one", "two", "two"}, names); diff != "" {
		t.Errorf("lines of (-want +got):\n%s\n%s", diff, out.String())
	}
}
