// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheBuildIsIdentifiedByWhatTheLinkerOrGoRecorded(t *testing.T) {
	t.Parallel()
	checkout := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "4f5d2a"},
		{Key: "vcs.time", Value: "2026-11-01T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for name, tt := range map[string]struct {
		linked string
		info   debug.BuildInfo
		want   Build
	}{
		"a build by make": {"v0.1.0-3-g4f5d2a", debug.BuildInfo{Settings: checkout},
			Build{Version: "v0.1.0-3-g4f5d2a", Commit: "4f5d2a", CommitTime: "2026-11-01T10:00:00Z", Modified: true}},
		"a module of a proxy":        {"", debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, Build{Version: "v0.1.0"}},
		"a build that tells nothing": {"", debug.BuildInfo{}, Build{Version: "(devel)"}},
	} {
		tt.want.GoVersion, tt.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
		if diff := cmp.Diff(tt.want, newBuild(tt.linked, &tt.info)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
