// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	exitDone         = 0   // done, or safe
	exitError        = 1   // could not do it
	exitWorkLeft     = 2   // unsafe, or work left
	exitUndetermined = 3   // cannot be determined
	exitFailures     = 4   // finished, and some objects failed
	exitInterrupted  = 130 // stopped by the user
)

// exitCode ends a command that has already shown its result with a code other than 0.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// userError is an error with the command that helps.
type userError struct {
	err  error
	hint string // a command, shown behind "Try: "
	code int
}

func (e *userError) Error() string { return e.err.Error() }
func (e *userError) Unwrap() error { return e.err }

// hinted adds the command to try to an error, which then ends the process with exit code 1.
func hinted(err error, hint string) error { return &userError{err: err, hint: hint, code: exitError} }

// hintedCode is hinted with another exit code.
func hintedCode(err error, hint string, code int) error {
	return &userError{err: err, hint: hint, code: code}
}

// usageError is for flags and arguments that cannot be taken.
func usageError(command *cobra.Command, err error) error {
	return hinted(err, command.CommandPath()+" --help")
}

// finish shows the error, if there is one, in two lines, and returns the exit code.
func (env *environment) finish(command *cobra.Command, err error) int {
	if err == nil {
		return exitDone
	}
	if code := exitCode(0); errors.As(err, &code) {
		return int(code)
	}
	code, hint := exitError, command.CommandPath()+" --help"
	if known := (*userError)(nil); errors.As(err, &known) {
		code, hint = known.code, known.hint
	}
	fmt.Fprintf(env.Err, "error: %s\n", oneLine(err))
	fmt.Fprintf(env.Err, "Try: %s\n", hint)
	return code
}

// oneLine folds an error's text into one line.
func oneLine(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if text == err.Error() {
		return err
	}
	return &folded{text: text, err: err}
}

type folded struct {
	text string
	err  error
}

func (f *folded) Error() string { return f.text }
func (f *folded) Unwrap() error { return f.err }
