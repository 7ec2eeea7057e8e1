// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the built kube-migrator as a user does, against real control planes, and looks at what etcd holds
// afterwards.
//
// It owns the promises of the README: each is a test here. It has no code but tests.
package e2e
