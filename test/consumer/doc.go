// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package consumer holds the test of the modules as programs of others meet them: from a module proxy, without go.work.
// The build tag "readme" keeps it from `make test`; `make test-readme` runs it.
package consumer
