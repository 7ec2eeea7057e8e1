// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestTheModuleOfAGeneratedClientKeepsItsNameWhereItIsThatOfTheGroup(t *testing.T) {
	t.Parallel()
	modules := []project.Module{{Path: "github.com/cache/v1", Dir: "."}, {Path: "github.com/cache/v1/cache", Dir: "cache"}}
	next := map[string]string{"cache": "storage", "v1": "v2"}
	for from, want := range map[string]string{
		"github.com/cache/v1/listers/cache/v1":       "github.com/cache/v1/listers/storage/v2",
		"github.com/cache/v1/cache/listers/cache/v1": "github.com/cache/v1/cache/listers/storage/v2",
		"github.com/cache/v1/cached/v1":              "github.com/cache/v1/cached/v2",
	} {
		if got := replaceBelow(modules, from, next); got != want {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}
