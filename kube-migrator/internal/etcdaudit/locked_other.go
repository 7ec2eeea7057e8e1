// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package etcdaudit

import "os"

// lockShared does nothing on systems without advisory locks: etcd does not run there.
func lockShared(*os.File) error { return nil }
