// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestALineThatIsTooLongIsBrokenWithTheEndingsOfItsFile(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 45)
	before := "\tif ready &&" + outerBreak + " (" + name + " == 1 ||" + innerBreak + " " + name + " == 2) &&" + outerBreak +
		" x {\n\tif a &&" + outerBreak + " b {\n"
	want := "\tif ready &&\n\t\t(" + name + " == 1 || " + name + " == 2) &&\n\t\tx {\n\tif a && b {\n"
	windows := strings.NewReplacer("\n", "\r\n").Replace
	for before, want := range map[string]string{
		before:          want,
		windows(before): windows(want),
		strings.ReplaceAll(before, name, name+name): strings.NewReplacer(name, name+name, "1 || ", "1 ||\n\t\t").Replace(want),
		"no marks" + name + name + name:             "no marks" + name + name + name,
	} {
		if diff := cmp.Diff(want, wrapped(before)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
