// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package refusal is the error of a command that refuses to change a CustomResourceDefinition, or to continue, because
// that would not be safe.
package refusal

import "fmt"

// Reason is why a command refuses. Each command lists its reasons as constants.
type Reason string

// Error is a refusal.
type Error struct {
	Reason  Reason
	Message string
	// Try is a command that the user can copy to solve the problem.
	Try string
}

func (e *Error) Error() string { return e.Message }

// New returns a refusal whose message is formatted as by fmt.Sprintf.
func New(reason Reason, try, format string, args ...any) *Error {
	return &Error{Reason: reason, Try: try, Message: fmt.Sprintf(format, args...)}
}
