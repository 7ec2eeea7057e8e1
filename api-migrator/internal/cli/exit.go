// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/move"
)

// Exit codes, the same for every command.
const (
	exitDone  = 0
	exitError = 1 // bad input, or it could not be done
	exitNo    = 2 // blockers, or the answer is no
)

// exitCode ends a command that has already shown its result with a code other than 0.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// hinted adds the command to try to an error.
func hinted(err error, try string) error { return &hint.Error{Err: err, Try: try} }

// usageError is for flags and arguments that the command does not accept.
func usageError(command *cobra.Command, err error) error {
	return hinted(err, command.CommandPath()+" --help")
}

// atMost accepts up to n arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := cobra.MaximumNArgs(n)(command, args); err != nil {
			return usageError(command, err)
		}
		return nil
	}
}

// finish shows the error, if there is one, in two lines, and returns the exit code.
func finish(streams Streams, command *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	code, try := exitError, command.CommandPath()+" --help"
	if known := (*hint.Error)(nil); errors.As(err, &known) {
		try = known.Try
	}
	if errors.Is(err, move.ErrBlocked) {
		code, try = exitNo, "api-migrator plan --help"
	}
	fmt.Fprintf(streams.Err, "error: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	fmt.Fprintf(streams.Err, "Try: %s\n", try)
	return code
}
