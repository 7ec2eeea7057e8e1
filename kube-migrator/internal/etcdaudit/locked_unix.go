// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcdaudit

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockShared takes a shared lock until the file is closed. It does not wait, because a running etcd holds an exclusive
// lock all the time.
func lockShared(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("it is locked: it is the %w that is running", ErrMemberFile)
	}
	if err != nil {
		return fmt.Errorf("lock snapshot: %w", err)
	}
	return nil
}
