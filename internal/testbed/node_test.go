// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"strings"
	"testing"
)

func TestMissingToolsOfANodeAreNamedWithTheirPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := checkNodeTools()
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"containerd, ", "runc, ",
		"\nTry: apt-get install -y --no-install-recommends containerd runc "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestNodeNeedsAClusterThatWasMadeForIt(t *testing.T) {
	_, err := StartNode(t.Context(), &Cluster{})
	if err == nil || !strings.Contains(err.Error(), "Options.Node") {
		t.Errorf("error %v, want one that names Options.Node", err)
	}
}
