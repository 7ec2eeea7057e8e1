// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import "testing"

func TestAFoldedLineTakesMoreRowsOfATerminal(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{{"", 0}, {"one\n", 1}, {"1234567890\n", 1}, {"12345678901\n", 2}, {"ÄÖÜäöüßÄÖÜ\n\ntwo\n", 3}} {
		if got := rowsOf([]byte(test.text), 10); got != test.want {
			t.Errorf("%q takes %d rows, want %d", test.text, got, test.want)
		}
	}
}
