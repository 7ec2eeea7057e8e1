// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package move

import "testing"

// The controllers of the guide's project need a client, so that a thousand packages are compiled below GOPATH.
func TestTheGuidesProjectIsMigratedBelowGOPATH(t *testing.T) {
	dir := belowGOPATH(t, "guide", "github.com/test-org/test-operator")
	checkBelowGOPATH(t, dir, guideRequest, "guide-tree.txt")
}
