// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package arg

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
)

const (
	// SettleTime is the name of the flag --settle-time.
	SettleTime    = "settle-time"
	shutdownDelay = "shutdown-delay"

	// SettleTimeUsage is the help of --settle-time in every command.
	SettleTimeUsage = "How long the API servers must have agreed on one version before anything is written or " +
		"concluded, because a request that started earlier may still write another version. Less than twice their " +
		"request timeout is safe only if no request lasts that long"
)

// delayValue is a flag for a duration in whose option 0 means the default, and a nanosecond means none. Users type 0
// for none, and read 0s in suggested commands.
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

// Delay adds a flag whose value may be 0.
func Delay(flags *pflag.FlagSet, into *time.Duration, name string, value time.Duration, usage string) {
	*into = value
	flags.Var(delayValue{into}, name, usage)
}

// ShutdownDelay adds --shutdown-delay. Every command with --settle-time has it.
func ShutdownDelay(flags *pflag.FlagSet, into *time.Duration) {
	Delay(flags, into, shutdownDelay, agreement.DefaultShutdownDelay,
		"How long an API server that is shutting down may still write if it cannot be asked: the longest "+
			"--shutdown-delay-duration of the API servers. If only --settle-time is given, its value is used")
}

// CompleteShutdownDelay sets --shutdown-delay to --settle-time if the user gave only the latter. Both are about how
// long an earlier request may still write, and the longer default of the former would contradict the user.
func CompleteShutdownDelay(command *cobra.Command, settle time.Duration, into *time.Duration) {
	if flags := command.Flags(); flags.Changed(SettleTime) && !flags.Changed(shutdownDelay) {
		*into = max(settle, time.Nanosecond)
	}
}

// FormatDelay returns the text of a duration that such a flag has set.
func FormatDelay(d time.Duration) string { return delayValue{&d}.String() }
