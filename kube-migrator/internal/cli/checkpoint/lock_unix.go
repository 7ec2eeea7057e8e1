// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"syscall"
)

// ErrLocked says that another process has the lock.
var ErrLocked = errors.New("locked by another process")

func lockFile(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
