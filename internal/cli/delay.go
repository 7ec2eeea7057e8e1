// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
)

const (
	settleTime    = "settle-time"
	shutdownDelay = "shutdown-delay"

	// settleTimeUsage is the help of --settle-time in every command.
	settleTimeUsage = "How long the API servers must have agreed on one version before anything is written or " +
		"concluded, because a request that " +
		"began earlier may still write another; less than twice their request timeout is safe only where no request " +
		"lasts that long"
)

// delayValue is a flag for a duration whose option takes 0 for the default and a nanosecond for none. Users say 0 and
// mean it, and read it in the commands that are suggested to them.
type delayValue struct{ into *time.Duration }

func (v delayValue) Type() string { return "duration" }

func (v delayValue) String() string {
	if v.into == nil || *v.into == time.Nanosecond {
		return "0s"
	}
	return v.into.String()
}

func (v delayValue) Set(text string) error {
	delay, err := parseDuration(text, 0)
	if err != nil {
		return err
	}
	*v.into = max(delay, time.Nanosecond)
	return nil
}

// delayVar adds a flag whose value may be 0.
func delayVar(flags *pflag.FlagSet, into *time.Duration, name string, value time.Duration, usage string) {
	*into = value
	flags.Var(delayValue{into}, name, usage)
}

// addShutdownDelay adds --shutdown-delay, which stands beside --settle-time everywhere.
func addShutdownDelay(flags *pflag.FlagSet, into *time.Duration) {
	delayVar(flags, into, shutdownDelay, agreement.DefaultShutdownDelay,
		"How long an API server that was told to end may go on writing where it cannot be asked whether it does: "+
			"the greatest --shutdown-delay-duration of the API servers; where only --settle-time is given, as long as that")
}

// completeShutdownDelay makes --settle-time alone, which says how long the past may last, say it about API servers that
// leave as well: a delay that is longer by default would contradict it.
func completeShutdownDelay(command *cobra.Command, settle time.Duration, into *time.Duration) {
	if flags := command.Flags(); flags.Changed(settleTime) && !flags.Changed(shutdownDelay) {
		*into = max(settle, time.Nanosecond)
	}
}
