// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	type inner struct{ A, b int }
	for name, tt := range map[string]struct {
		want, got any
		lines     string
	}{
		"equal":               {inner{1, 2}, inner{1, 2}, ""},
		"texts, line by line": {"a\nb\nc\nd", "a\nx\nc\nd\ne", "  ..\n- b\n+ x\n  ..\n+ e\n"},
		"fields that are not exported": {inner{1, 2}, inner{1, 3},
			"  ..\n-   b: (int) 2\n+   b: (int) 3\n  ..\n"},
		"maps, in the order of their keys": {map[string]int{"a": 1, "b": 2}, map[string]int{"b": 2},
			"- (map[string]int) (len=2) {\n-   (string) (len=1) \"a\": (int) 1,\n+ (map[string]int) (len=1) {\n"},
		"what is behind a pointer": {&inner{1, 2}, &inner{1, 2}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Diff(tt.want, tt.got); strings.TrimSuffix(got, "  ..\n") != strings.TrimSuffix(tt.lines, "  ..\n") {
				t.Errorf("the difference is\n%s\nwant\n%s", got, tt.lines)
			}
		})
	}
	t.Run("a nil list is not an empty one", func(t *testing.T) {
		if Diff([]string(nil), []string{}) == "" {
			t.Error("they are taken as equal")
		}
	})
}
