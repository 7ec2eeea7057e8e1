// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the built kube-migrator as a user does, against real control planes, and looks at what etcd holds
// afterwards.
//
// It owns the promises of the README: each is a test here. It has no code but tests.
//
// The files harness_*_test.go hold what tests share: cli (users and their commands), author (a user with an operator's
// project), requests (to API servers, by proxies), accounts, controller and trigger (controllers as processes, and what
// they write), widgets and gadgets (custom resources, one or many of a cluster), crds, and etcd (what is stored).
package e2e
