// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apicli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	exitDone  = 0
	exitError = 1 // could not do it
	exitNo    = 2 // blockers, or the answer is no
)

// exitCode ends a command that has already shown its result with a code other than 0.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// userError is an error with the command that helps.
type userError struct {
	err  error
	hint string // a command, shown behind "Try: "
}

func (e *userError) Error() string { return e.err.Error() }
func (e *userError) Unwrap() error { return e.err }

// hinted adds the command to try to an error.
func hinted(err error, hint string) error { return &userError{err: err, hint: hint} }

// usageError is for flags and arguments that cannot be taken.
func usageError(command *cobra.Command, err error) error {
	return hinted(err, command.CommandPath()+" --help")
}

// finish shows the error, if there is one, in two lines, and returns the exit code.
func finish(streams Streams, command *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	hint := command.CommandPath() + " --help"
	if known := (*userError)(nil); errors.As(err, &known) {
		hint = known.hint
	}
	fmt.Fprintf(streams.Err, "error: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	fmt.Fprintf(streams.Err, "Try: %s\n", hint)
	return exitError
}
