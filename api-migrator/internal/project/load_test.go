// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package project

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

func TestFilesThatNoOneHasCheckedAreListed(t *testing.T) {
	t.Parallel()
	p := &Project{Root: "/x"}
	err := p.takePackage(&packages.Package{
		GoFiles:         []string{"/x/a.go", "/x/cgo.go", "/cache/gen.go"},
		CompiledGoFiles: []string{"/cache/_cgo_gotypes.go", "/x/a.go"},
		IgnoredFiles:    []string{"/x/windows.go", "/x/windows.s"},
	}, map[string]*Package{}, map[string]bool{})
	if diff := cmp.Diff([]string{"windows.go", "cgo.go"}, p.Ignored); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
