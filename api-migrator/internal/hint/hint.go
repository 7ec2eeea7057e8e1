// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package hint holds errors that carry a command which helps the user.
package hint

import "fmt"

// Error is an error that the user can resolve.
type Error struct {
	Err error
	// Try is a command that can be copied, without "Try: ".
	Try string
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error: the command first, then the text as fmt.Errorf takes it.
func Errorf(try, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Try: try}
}
