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
	// ErrNoSnapshot: the file is not a database of etcd.
	ErrNoSnapshot = errors.New("no etcd snapshot")
	// ErrTruncated: the file is shorter than its own header says.
	ErrTruncated = errors.New("snapshot is truncated")
	// ErrDamaged: the content does not match its checksum, or contradicts itself.
	ErrDamaged = errors.New("snapshot is damaged")
	// ErrMemberFile: the file belongs to an etcd member, which may be running.
	ErrMemberFile = errors.New("database file of an etcd member")
)

// UnreachableError: etcd did not answer in time.
type UnreachableError struct {
	Endpoints []string
	Timeout   time.Duration
	// Cause is what a second connection, made to learn the reason, ran into; nil where it found nothing.
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

// EmptyError: no key begins with the prefix, so nothing was audited.
type EmptyError struct{ Prefix string }

func (e *EmptyError) Error() string { return fmt.Sprintf("no key begins with %q", e.Prefix) }
