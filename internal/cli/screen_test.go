// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
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
