// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/progress"
)

func TestLongWorkIsSeenAndShortWorkIsNot(t *testing.T) {
	for name, test := range map[string]struct {
		interval time.Duration
		steps    map[time.Duration]string // by when they begin
		lasts    time.Duration
		want     string
	}{
		"short work": {2 * time.Second, map[time.Duration]string{0: "load"}, time.Second, ""},
		"each step that lasts, and the last one of several": {2 * time.Second,
			map[time.Duration]string{0: "load", 3 * time.Second: "decide", 3500 * time.Millisecond: "try"},
			5 * time.Second, "2s: load\n4s: try\n"},
		"a step that goes on is repeated": {2 * time.Second, map[time.Duration]string{0: "load"}, 13 * time.Second,
			"2s: load\n12s: load\n"},
		"work without steps": {2 * time.Second, nil, 13 * time.Second, ""},
		"not wanted":         {0, map[time.Duration]string{0: "load"}, 13 * time.Second, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				ctx, stop := watched(t.Context(), &shared{out: &out}, test.interval)
				for when, step := range test.steps {
					time.AfterFunc(when, func() { progress.Step(ctx, "%s", step) })
				}
				time.Sleep(test.lasts)
				synctest.Wait()
				stop()
				if diff := cmp.Diff(test.want, out.String()); diff != "" {
					t.Errorf("lines (-want +got):\n%s", diff)
				}
			})
		})
	}
}
