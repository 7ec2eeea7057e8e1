// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package readme walks the way of a new user: it clones the repository into an empty folder, runs the commands of
// README.md in their order with no other programs than Go, git, make and those of every Linux, and expects of each what
// the text promises. The build tag is "readme"; `make test-readme` runs it.
package readme
