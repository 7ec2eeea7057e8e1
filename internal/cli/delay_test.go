// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/agreement"
)

func TestHowLongServersThatLeaveMayServe(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want time.Duration // 0: the flags are refused
	}{
		"by default":     {nil, agreement.DefaultShutdownDelay},
		"as it is given": {[]string{"--shutdown-delay=70s", "--settle-time=1s"}, 70 * time.Second},
		"as long as the settle time that is given": {[]string{"--settle-time=5m"}, 5 * time.Minute},
		"not at all":           {[]string{"--shutdown-delay=0"}, time.Nanosecond},
		"less than not at all": {[]string{"--shutdown-delay=-1s"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var settle, delay time.Duration
			command := &cobra.Command{Use: "x"}
			command.Flags().DurationVar(&settle, settleTime, time.Minute, "")
			addShutdownDelay(command.Flags(), &delay)
			if err := command.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			err := completeShutdownDelay(command, settle, &delay)
			if (err == nil) != (tt.want > 0) || err == nil && delay != tt.want {
				t.Errorf("the delay is %v, %v; want %v", delay, err, tt.want)
			}
		})
	}
}
