// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package cli

import "testing"

func TestLongerScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "script-all")
}
