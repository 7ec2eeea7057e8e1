// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAMessageIsCutBetweenCharacters(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a short one stays":          {"héllo", "héllo"},
		"one that just fits stays":   {strings.Repeat("é", maxText), strings.Repeat("é", maxText)},
		"a longer one is cut":        {strings.Repeat("é", maxText+1), strings.Repeat("é", maxText-1) + "…"},
		"broken text becomes proper": {strings.Repeat("\xff", 2*maxText), strings.Repeat("\uFFFD", maxText-1) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := cut(c.text)
			if got != c.want || !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxText {
				t.Errorf("got %q (%d characters), want %q", got, utf8.RuneCountInString(got), c.want)
			}
		})
	}
}

func TestThePresentRateIsThatOfTheLastSeconds(t *testing.T) {
	var m speed
	begin := time.Now()
	rate := func(second int, phase migrate.Phase, done int64) float64 {
		return m.at(begin.Add(time.Duration(second)*time.Second),
			migrate.Progress{Phase: phase, Counts: migrate.Counts{Rewritten: done}})
	}
	for second := range 10 {
		rate(second, migrate.Rewriting, int64(100*second))
	}
	for second := 10; second < 15; second++ {
		rate(second, migrate.Rewriting, int64(900+200*(second-9)))
	}
	if got := rate(15, migrate.Rewriting, 2100); got != 200 {
		t.Errorf("rate %v, want 200: that of the last 5 s", got)
	}
	if got := rate(16, migrate.Rewriting, 10); got != 0 {
		t.Errorf("rate %v at the beginning of a new pass, want 0", got)
	}
	if got := rate(17, migrate.Confirming, 10); got != 0 {
		t.Errorf("rate %v while nothing is rewritten, want 0", got)
	}
}
