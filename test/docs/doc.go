// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the documents to the truth: links lead somewhere, the programs accept every command line that a
// document shows, and the pages that show a session do on a real cluster what they say.
//
// It has no code but tests.
package docs
