// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// Command is the command of the program that runs a worker: the first argument of its container.
const Command = "worker"

// Settings are what the controller passes on to every worker, in a Job and in its own process. Nothing copies them
// field by field.
type Settings struct {
	// MinEvidence is the weakest evidence that proves anything. 0 means Verified.
	MinEvidence migrate.Evidence
	// SettleTime is how long after the beginning of an epoch nothing is concluded. 0 means 2 minutes.
	SettleTime time.Duration
	// ShutdownDelay is that of agreement.Options.
	ShutdownDelay time.Duration
}

// flags are the flags of the command that set them.
func (s Settings) flags() []flag {
	return []flag{
		{"min-evidence", strings.ToLower(s.MinEvidence.String())}, {"settle-time", s.SettleTime.String()},
		{"shutdown-delay", s.ShutdownDelay.String()},
	}
}

// String returns the flags as one text. A worker with other settings gets no further run.
func (s Settings) String() string { return strings.Join(texts(s.flags()), " ") }

// Arguments are those of a worker's container. The controller writes them into Jobs, and the guard of an installation
// admits no others: a flag that is not in flags is refused there.
type Arguments struct {
	Namespace, Roster string
	Settings          Settings
}

// flag is a flag of the command with its value.
type flag struct{ name, value string }

// flags are all flags that a worker may have, those that differ between Jobs first.
func (a Arguments) flags() []flag {
	return append([]flag{{"namespace", a.Namespace}, {"roster", a.Roster}}, a.Settings.flags()...)
}

// CommandLine returns the arguments of the container.
func (a Arguments) CommandLine() []string { return append([]string{Command}, texts(a.flags())...) }

// FlagNames returns the names of all flags that a worker may have.
func FlagNames() []string {
	var names []string
	for _, f := range (Arguments{}).flags() {
		names = append(names, f.name)
	}
	return names
}

func texts(flags []flag) []string {
	var all []string
	for _, f := range flags {
		all = append(all, "--"+f.name+"="+f.value)
	}
	return all
}
