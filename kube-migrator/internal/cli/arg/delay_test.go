// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package arg

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
)

func TestHowLongServersThatLeaveMayServe(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		want  time.Duration // 0: the flags are refused
		shown string        // as a suggested command repeats it
	}{
		"by default":     {nil, agreement.DefaultShutdownDelay, "3m30s"},
		"as it is given": {[]string{"--shutdown-delay=70s", "--settle-time=1s"}, 70 * time.Second, "1m10s"},
		"as long as the settle time that is given": {[]string{"--settle-time=5m"}, 5 * time.Minute, "5m0s"},
		"not at all":           {[]string{"--shutdown-delay=0"}, time.Nanosecond, "0s"},
		"less than not at all": {[]string{"--shutdown-delay=-1s"}, 0, ""},
		"no duration":          {[]string{"--shutdown-delay=long"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var settle, delay time.Duration
			command := &cobra.Command{Use: "x"}
			command.Flags().DurationVar(&settle, SettleTime, time.Minute, "")
			ShutdownDelay(command.Flags(), &delay)
			if err := command.ParseFlags(tt.args); err != nil || tt.want == 0 {
				if (err == nil) != (tt.want > 0) {
					t.Fatal(err)
				}
				return
			}
			CompleteShutdownDelay(command, settle, &delay)
			if shown := command.Flag(shutdownDelay).Value.String(); delay != tt.want || shown != tt.shown {
				t.Errorf("the delay is %v, shown as %s; want %v, shown as %s", delay, shown, tt.want, tt.shown)
			}
		})
	}
}
