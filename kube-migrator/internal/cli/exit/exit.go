// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package exit ends a command: it owns the exit codes, the two lines of an error, and the phrasing of the mistakes that
// every command can meet.
//
// The first line says what is wrong. The second line is "Try: " with a command that the user can copy; prose belongs in
// the first line.
package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes, the same for every command.
const (
	Done         = 0   // done, or safe
	Error        = 1   // an error
	WorkLeft     = 2   // unsafe, or work left
	Undetermined = 3   // cannot be determined
	Failures     = 4   // finished, and some objects failed
	Interrupted  = 130 // stopped by the user
)

// Code ends a command that has already shown its result with a code other than 0.
type Code int

func (c Code) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Hint is an error with a command that helps.
type Hint struct {
	err     error
	command string
	code    int
}

func (h *Hint) Error() string { return h.err.Error() }
func (h *Hint) Unwrap() error { return h.err }

// Command returns the command that helps.
func (h *Hint) Command() string { return h.command }

// Code returns the exit code.
func (h *Hint) Code() int { return h.code }

// Try adds the command that helps to an error. The exit code is 1.
func Try(err error, command string) error { return TryCode(err, command, Error) }

// TryCode is Try with another exit code.
func TryCode(err error, command string, code int) error {
	return &Hint{err: err, command: command, code: code}
}

// Usage returns the error for flags and arguments that the command does not accept.
func Usage(command *cobra.Command, err error) error {
	return Try(err, command.CommandPath()+" --help")
}

// Report shows the error, if there is one, in two lines, and returns the exit code.
func Report(w io.Writer, command *cobra.Command, err error) int {
	code, problem, try := Parts(command, err)
	if problem != "" {
		fmt.Fprintf(w, "error: %s\nTry: %s\n", problem, try)
	}
	return code
}

// Parts returns the exit code for an error, and its two lines: the problem, and the command that helps. Both are empty
// if there is no error, or if the command has already shown its result.
func Parts(command *cobra.Command, err error) (code int, problem, try string) {
	if err == nil {
		return Done, "", ""
	}
	if code := Code(0); errors.As(err, &code) {
		return int(code), "", ""
	}
	code, try = Error, command.CommandPath()+" --help"
	if hint := (*Hint)(nil); errors.As(err, &hint) {
		code, try = hint.code, hint.command
	}
	return code, OneLine(err).Error(), try
}

// Worse returns the more important of two codes. Their order is: an interrupt, an error, failures, undetermined, work
// left, done.
func Worse(a, b int) int {
	for _, code := range []int{Interrupted, Error, Failures, Undetermined, WorkLeft} {
		if a == code || b == code {
			return code
		}
	}
	return Done
}

// WorseVerdict is Worse for commands that judge clusters and change nothing. For them, as within one cluster, work left
// is more important than what is undetermined.
func WorseVerdict(a, b int) int {
	if a == WorkLeft && b == Undetermined || a == Undetermined && b == WorkLeft {
		return WorkLeft
	}
	return Worse(a, b)
}

// OneLine folds an error's text into one line.
func OneLine(err error) error {
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
