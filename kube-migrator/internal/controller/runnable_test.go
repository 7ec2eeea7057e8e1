// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kube-migrator/kube-migrator/migrate/operator"
)

// The library does not import controller-runtime. This package does, so it compares the interfaces.
var (
	_ manager.Runnable               = (*operator.Migration)(nil)
	_ manager.LeaderElectionRunnable = (*operator.Migration)(nil)
)
