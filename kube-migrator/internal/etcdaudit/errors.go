// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"errors"
	"fmt"
	"time"
)

// What is wrong with a file or an etcd. The wrapping error says more; test with errors.Is.
var (
	// ErrNoSnapshot reports that the file is not an etcd database.
	ErrNoSnapshot = errors.New("no etcd snapshot")
	// ErrTruncated reports that the file is shorter than its own header says.
	ErrTruncated = errors.New("snapshot is truncated")
	// ErrDamaged reports that the content does not match its checksum, or is inconsistent.
	ErrDamaged = errors.New("snapshot is damaged")
	// ErrMemberFile reports that the file belongs to an etcd member, which may be running.
	ErrMemberFile = errors.New("database file of an etcd member")
)

// UnreachableError reports that etcd did not answer in time.
type UnreachableError struct {
	Endpoints []string
	Timeout   time.Duration
	// Cause is the error of a second connection that was made to find out the reason, or nil if that found none.
	Cause error
}

func (e *UnreachableError) Error() string {
	text := fmt.Sprintf("etcd at %v did not answer within %s", e.Endpoints, e.Timeout)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *UnreachableError) Unwrap() error { return e.Cause }

// EmptyError reports that no key begins with the prefix, so nothing was audited.
type EmptyError struct{ Prefix string }

func (e *EmptyError) Error() string { return fmt.Sprintf("no key begins with %q", e.Prefix) }
