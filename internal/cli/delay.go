// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/agreement"
)

const (
	settleTime    = "settle-time"
	shutdownDelay = "shutdown-delay"
)

// addShutdownDelay adds --shutdown-delay, which stands beside --settle-time everywhere.
func addShutdownDelay(flags *pflag.FlagSet, into *time.Duration) {
	flags.DurationVar(into, shutdownDelay, agreement.DefaultShutdownDelay, "How long an API server that was told to end may go on writing where it cannot be asked whether it does: "+
		"the greatest --shutdown-delay-duration of the API servers; where only --settle-time is given, as long as that")
}

// completeShutdownDelay checks the flag. Whoever says how long the past may last by --settle-time alone has said it about servers that
// leave as well: a delay that is longer by default would take that back.
func completeShutdownDelay(command *cobra.Command, settle time.Duration, into *time.Duration) error {
	flags := command.Flags()
	if *into < 0 {
		return usageError(command, fmt.Errorf("--%s is %v, want 0 or more", shutdownDelay, *into))
	}
	if flags.Changed(settleTime) && !flags.Changed(shutdownDelay) {
		*into = settle
	}
	*into = max(*into, time.Nanosecond) // 0 would mean the default
	return nil
}
