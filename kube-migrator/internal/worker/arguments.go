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

// Arguments are those of a worker's container. The controller writes them into Jobs, and the guard of an installation
// admits no others: a flag that is not in flags is refused there.
type Arguments struct {
	Namespace, Roster string
	// These apply to all runs of a worker.
	MinEvidence               migrate.Evidence
	SettleTime, ShutdownDelay time.Duration
}

// flag is a flag of the command with its value.
type flag struct{ name, value string }

// flags are all flags that a worker may have, those that differ between Jobs first.
func (a Arguments) flags() (own, settings []flag) {
	return []flag{{"namespace", a.Namespace}, {"roster", a.Roster}}, []flag{
		{"min-evidence", strings.ToLower(a.MinEvidence.String())}, {"settle-time", a.SettleTime.String()},
		{"shutdown-delay", a.ShutdownDelay.String()},
	}
}

// CommandLine returns the arguments of the container.
func (a Arguments) CommandLine() []string {
	own, settings := a.flags()
	return append([]string{Command}, texts(append(own, settings...))...)
}

// Settings returns what applies to all runs of a worker, as one text. A worker with other settings gets no further run.
func (a Arguments) Settings() string {
	_, settings := a.flags()
	return strings.Join(texts(settings), " ")
}

// FlagNames returns the names of all flags that a worker may have.
func FlagNames() []string {
	own, settings := Arguments{}.flags()
	var names []string
	for _, f := range append(own, settings...) {
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
